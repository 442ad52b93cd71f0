/* Options that were set and have no effect because another option is not set, or another effect than was asked for. */
#ifndef MDNN_OPTION_CHECKS_H
#define MDNN_OPTION_CHECKS_H

#include "config/options_table.h"

/* The option without which option `id` has no effect now; MDNN_OPTION_COUNT if `id` has an effect, or was not set. */
mdnn_option_id_t mdnn_option_lacks(const mdnn_options_t *options, mdnn_option_id_t id);

/* Whether the option was set for this run: in the environment, not in a file. */
bool mdnn_option_is_from_environment(const mdnn_options_t *options, mdnn_option_id_t id);

/* One line for each option without effect. `run_only`: only for those that were set for this run. */
void mdnn_options_report_idle(const mdnn_options_t *options, bool run_only,
                              mdnn_options_report_t report, void *context);

/* One line if the library takes another size of chunks than was set, under a budget. */
void mdnn_options_report_rounded(const mdnn_options_t *options, mdnn_options_report_t report,
                                 void *context);

#endif
