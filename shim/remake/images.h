/* Copies of sides, the small results that launches have beside the large one. A launch that is made again gets these
 * copies instead of the ranges, so it changes nothing but its result: statistics that it updates, say, are not updated
 * twice. A copy is what the range contained before the launch. The caller has entered the device. */
#ifndef MDNN_IMAGES_H
#define MDNN_IMAGES_H

#include "shim/remake/made_values.h"
#include "shim/remake/slots.h"

/* Bytes of device memory: of a place, and of a part of them, which is made at a time. */
enum { MDNN_IMAGE_BYTES = 64 << 10, MDNN_IMAGE_PART_BYTES = 16 * MDNN_IMAGE_BYTES };
/* Whether more places are wanted, and could be made. */
bool mdnn_images_are_short(void);
/* `memory`: MDNN_IMAGE_PART_BYTES, which they have until they end; 0: there is none, so none is wanted for a while. */
void mdnn_images_add(uint64_t memory);
void mdnn_images_forget(void); /* the device was reset */

/* MDNN_NO_SLOT: there is none now. */
int mdnn_images_take(void);
/* `end`: of all work on it. */
void mdnn_images_give(int image, mdnn_stream_point_t end);
uint64_t mdnn_image_address(int image);

/* Where a launch finds its small results. */
typedef struct mdnn_redirects {
    size_t count;
    uint64_t bytes; /* that they take */
    mdnn_redirect_t all[MDNN_REMAKE_SIDES];
} mdnn_redirects_t;

/* Those among the first `count` operands of a recipe, whose copies begin at `to`. false: they are too many, or take more
 * than an image has. */
bool mdnn_redirects_of(const mdnn_recipe_t *recipe, uint32_t count, uint64_t to,
                       mdnn_redirects_t *redirects);
/* Enqueues copies of the ranges. false: a call failed. */
bool mdnn_redirects_copy(const mdnn_driver_t *driver, const mdnn_redirects_t *redirects,
                         CUstream stream);

#endif
