/* What the options say about policy wd. Thread-safe; reads only the options. */
#ifndef MDNN_WD_SETTINGS_H
#define MDNN_WD_SETTINGS_H

#include "optimizer/wd_policy.h"

bool mdnn_wd_is_on(void);
/* The workspace that one convolution may have under policy wd: the total, or workspace_limit if
 * that is less; 0 under any other policy. */
uint64_t mdnn_wd_limit(void);
mdnn_wd_settings_t mdnn_wd_settings(void);

#endif
