/* Lists of the engines that there are for a part: what cuDNN's heuristics offer and, if wanted, every engine and knob.
 * The planner's alone (shim/convolution/planning.h). */
#ifndef MDNN_ENGINE_LIST_H
#define MDNN_ENGINE_LIST_H

#include "shim/candidates/engines.h"

/* Lists go on behind the heuristics' offers, as long as there is room: every engine there is with its
 * defaults, then all engines, taking turns, with one knob set to another value. Only those that can be
 * planned, so listing takes as long as planning them. */
void mdnn_engines_offer_all(mdnn_engines_t *engines);

/* Lists end early: they have as many engines as a program's own search looks at. */
void mdnn_engines_offer_first(mdnn_engines_t *engines);

/* What the heuristics offer for `images` images, best first, without doubles and without engines
 * whose numerics are weaker than the problem allows: at most `capacity` of them. UNSUPPORTED if
 * cuDNN has no such graph. */
mdnn_status_t mdnn_engines_list(mdnn_engines_t *engines, cudnnHandle_t handle, int64_t images,
                                mdnn_graph_scaling_t scaling, mdnn_engine_offer_t *offers,
                                size_t capacity, size_t *count);

/* Only those of the first list: for the few engines that it falls back to cuDNN 9 takes several times as
 * long. */
mdnn_status_t mdnn_engines_list_instant(mdnn_engines_t *engines, cudnnHandle_t handle,
                                        int64_t images, mdnn_graph_scaling_t scaling,
                                        mdnn_engine_offer_t *offers, size_t capacity,
                                        size_t *count);

#endif
