/* Whether the environment asks for results that are the same in each run. Frameworks and libraries have variables for
 * that, and people set them: PyTorch demands CUBLAS_WORKSPACE_CONFIG where deterministic algorithms are switched on. */
#ifndef MDNN_DETERMINISTIC_H
#define MDNN_DETERMINISTIC_H

#include <stdbool.h>

/* Reads the environment as it is now. Like getenv, not while another thread changes it. */
bool mdnn_environment_is_deterministic(void);

#endif
