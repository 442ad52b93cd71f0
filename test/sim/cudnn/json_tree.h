/* A small reader of JSON: a tree of values in one allocation of known size, for texts that this
 * library is given by its caller. */
#ifndef SIM_CUDNN_JSON_TREE_H
#define SIM_CUDNN_JSON_TREE_H

#include <stdbool.h>
#include <stdint.h>

typedef enum sim_json_kind {
    JSON_NULL,
    JSON_TRUTH,
    JSON_NUMBER,
    JSON_TEXT,
    JSON_ARRAY,
    JSON_OBJECT
} sim_json_kind_t;

typedef struct sim_json {
    sim_json_kind_t kind;
    bool truth;
    double number;
    int64_t integer;                     /* of a number without point or exponent */
    const char *text;                    /* with escapes left as they are */
    const char *name;                    /* in an object */
    const struct sim_json *first, *next; /* children of this one; brothers */
} sim_json_t;

/* NULL: not JSON, too deep (16 levels), or no memory. Freed with sim_json_free. */
const sim_json_t *sim_json_read(const char *text);
void sim_json_free(const sim_json_t *root);

/* NULL where `object` is NULL, no object, or lacks the member. */
const sim_json_t *sim_json_member(const sim_json_t *object, const char *name);
const char *sim_json_text(const sim_json_t *value);
int64_t sim_json_integer(const sim_json_t *value, int64_t otherwise);
double sim_json_number(const sim_json_t *value, double otherwise);
/* How many integers of an array went to `out`; -1: no array, too long, or not integers. */
int64_t sim_json_integers(const sim_json_t *array, int64_t most, int64_t *out);

#endif
