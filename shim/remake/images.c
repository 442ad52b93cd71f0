#include "shim/remake/images.h"

#include <string.h>

enum { PARTS = 10, IMAGES_OF_A_PART = MDNN_IMAGE_PART_BYTES / MDNN_IMAGE_BYTES, ALIGNMENT = 512 };

static mdnn_slot_t places[PARTS * IMAGES_OF_A_PART];
static uint64_t memory[PARTS];
static int parts;
static mdnn_slots_t slots = {.all = places};
static bool is_short;
static unsigned rest; /* so many times more may be too few before memory is asked for again */

bool mdnn_images_are_short(void)
{
    return is_short && parts < PARTS;
}

void mdnn_images_add(uint64_t more)
{
    enum { REST = 256 };
    is_short = false;
    rest = more == 0 ? REST : 0;
    if (more == 0)
        return;
    memory[parts++] = more;
    slots.count = parts * IMAGES_OF_A_PART;
}

/* They ended with their context. */
void mdnn_images_forget(void)
{
    memset(places, 0, sizeof places);
    slots = (mdnn_slots_t){.all = places};
    parts = 0;
    is_short = false;
    rest = 0;
}

int mdnn_images_take(void)
{
    const int image = mdnn_slots_take(&slots);
    if (image == MDNN_NO_SLOT)
        is_short = rest == 0 || --rest == 0;
    return image;
}

void mdnn_images_give(int image, mdnn_stream_point_t end)
{
    if (image < slots.count)
        mdnn_slots_give(&slots, image, end);
}

uint64_t mdnn_image_address(int image)
{
    return memory[image / IMAGES_OF_A_PART] +
           (uint64_t)(image % IMAGES_OF_A_PART) * MDNN_IMAGE_BYTES;
}

/* ---- redirects ---- */

static uint64_t round_up(uint64_t bytes)
{
    return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

bool mdnn_redirects_of(const mdnn_recipe_t *recipe, uint32_t count, uint64_t to,
                       mdnn_redirects_t *redirects)
{
    *redirects = (mdnn_redirects_t){0};
    for (uint32_t i = 0; i < count; i++) {
        const mdnn_recipe_operand_t *const operand = &recipe->operands[i];
        if (!mdnn_recipe_is_side(recipe, i))
            continue;
        if (redirects->count == MDNN_REMAKE_SIDES ||
            redirects->bytes + round_up(operand->bytes) > MDNN_IMAGE_BYTES)
            return false;
        redirects->all[redirects->count++] =
            (mdnn_redirect_t){operand->start, operand->bytes, to + redirects->bytes};
        redirects->bytes += round_up(operand->bytes);
    }
    return true;
}

bool mdnn_redirects_copy(const mdnn_driver_t *driver, const mdnn_redirects_t *redirects,
                         CUstream stream)
{
    for (size_t i = 0; i < redirects->count; i++)
        if (driver->cuMemcpyDtoDAsync(redirects->all[i].to, redirects->all[i].start,
                                      redirects->all[i].bytes, stream) != CUDA_SUCCESS)
            return false;
    return true;
}
