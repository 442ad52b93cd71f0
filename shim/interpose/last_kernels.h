/* The kernels that were launched last, for the line that is logged when the device reports an illegal access. */
#ifndef MDNN_LAST_KERNELS_H
#define MDNN_LAST_KERNELS_H

/* `name` is valid until the process ends. Thread-safe; costs an atomic addition. */
void mdnn_last_kernels_add(const char *name);
/* Logs them, once, with the settings that would help. */
void mdnn_last_kernels_say(void);

#endif
