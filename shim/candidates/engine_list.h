/* Lists the engines for a part: those that cuDNN's heuristics offer and, on request, every engine and knob. Only
 * the planner calls it (shim/convolution/planning.h). */
#ifndef MDNN_ENGINE_LIST_H
#define MDNN_ENGINE_LIST_H

#include "shim/candidates/engines.h"

/* Lists continue after the heuristics' offers while there is room: first every engine with its defaults, then all
 * engines in turn with one knob set to another value. Only engines that can be planned are listed, so listing takes as
 * long as planning them. */
void mdnn_engines_offer_all(mdnn_engines_t *engines);

/* Lists end early, with as many engines as a program's own search looks at. */
void mdnn_engines_offer_first(mdnn_engines_t *engines);

/* What the heuristics offer for `images` images, best first, without duplicates and without engines whose numerics are
 * weaker than the problem allows: at most `capacity` of them. UNSUPPORTED if cuDNN has no such graph. */
mdnn_status_t mdnn_engines_list(mdnn_engines_t *engines, cudnnHandle_t handle, int64_t images,
                                mdnn_graph_scaling_t scaling, mdnn_engine_offer_t *offers,
                                size_t capacity, size_t *count);

/* Only the engines of the first list: cuDNN 9 takes several times as long to list its few fallback engines. */
mdnn_status_t mdnn_engines_list_instant(mdnn_engines_t *engines, cudnnHandle_t handle,
                                        int64_t images, mdnn_graph_scaling_t scaling,
                                        mdnn_engine_offer_t *offers, size_t capacity,
                                        size_t *count);

#endif
