/* A JSON document as a tree of values; objects can be read into structs, field by field. The reader is strict where a
 * mistake would change the meaning: it refuses an object with an unknown field, or with the same field twice. Escapes
 * in strings are not resolved, so a string with an escape equals no name.
 *
 * A value is a number >= 0 that is valid for its document; -1 means no value. The text must outlive the document. Only
 * one thread at a time may use a document. */
#ifndef MDNN_JSON_H
#define MDNN_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config/status.h"

typedef struct mdnn_json mdnn_json_t;

/* BAD_FORMAT unless the text is one JSON object; UNSUPPORTED beyond MDNN_JSON_BYTES; OUT_OF_MEMORY.
 * A zero byte ends the text. */
enum { MDNN_JSON_BYTES = 16 * 1024 * 1024, MDNN_JSON_ROOT = 0 };
mdnn_status_t mdnn_json_open(const char *text, size_t bytes, mdnn_json_t **json);
void mdnn_json_close(mdnn_json_t *json); /* may be NULL */

/* The value of that field; -1 if there is no such field, or if `object` is not an object. */
int mdnn_json_member(const mdnn_json_t *json, int object, const char *key);

/* The elements of an array: for (v = first(a); v >= 0; v = next(a, v)). Any other value has no elements. */
int mdnn_json_first(const mdnn_json_t *json, int array);
int mdnn_json_next(const mdnn_json_t *json, int array, int element);
bool mdnn_json_is_array(const mdnn_json_t *json, int value);

typedef struct mdnn_json_name {
    const char *name;
    int32_t number;
} mdnn_json_name_t;

/* False, with *number untouched, if the value is not a string of the list. The list ends with a NULL.
 */
bool mdnn_json_named(const mdnn_json_t *json, int value, const mdnn_json_name_t *names,
                     int32_t *number);

/* False, with *number untouched, if the value is not a number of that type. */
bool mdnn_json_int(const mdnn_json_t *json, int value, int32_t *number);

enum { MDNN_JSON_LIST = 5 };
typedef struct mdnn_json_list {
    int32_t count;
    int32_t at[MDNN_JSON_LIST];
} mdnn_json_list_t;

typedef enum mdnn_json_kind {
    MDNN_JSON_INT,     /* int32_t; numbers with a point or an exponent are refused */
    MDNN_JSON_DOUBLE,  /* double, finite, in whatever locale the process is */
    MDNN_JSON_BOOL,    /* bool */
    MDNN_JSON_INTS,    /* mdnn_json_list_t */
    MDNN_JSON_DECIMAL, /* int64_t, from a string */
    MDNN_JSON_NAME,    /* int32_t, from a string of `names` */
    MDNN_JSON_ANYTHING /* not read */
} mdnn_json_kind_t;

typedef struct mdnn_json_field {
    const char *key;
    mdnn_json_kind_t kind;
    bool required;
    size_t offset; /* of the field in the struct that `into` points to */
    const mdnn_json_name_t *names;
} mdnn_json_field_t;

/* Fields that the object lacks keep their values. The list ends with a NULL key and has at most 32 fields. False if
 * `object` is not an object, has a field that is not in the list or has one twice, lacks a required one, or has a value
 * of another kind; *into may then be partly written. */
bool mdnn_json_fields(const mdnn_json_t *json, int object, const mdnn_json_field_t *fields,
                      void *into);

#endif
