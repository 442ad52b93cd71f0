/* JSON documents by way of jsmn's tokens. */
#include "shim/graph/json.h"

#include <errno.h>
#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define JSMN_STATIC
#define JSMN_STRICT
#define JSMN_PARENT_LINKS
#include <jsmn.h>

struct mdnn_json {
    const char *text;
    locale_t c_locale;
    int count;
    jsmntok_t tokens[]; /* in the order of the text: a container precedes what it holds */
};

static bool is_key(const mdnn_json_t *json, int token)
{
    const int parent = json->tokens[token].parent;
    return parent >= 0 && json->tokens[parent].type == JSMN_OBJECT;
}

/* jsmn accepts more than JSON: keys without a value, values without a comma, text behind the end.
 */
static bool is_proper(const mdnn_json_t *json, int token)
{
    const jsmntok_t *const it = &json->tokens[token];
    if (it->parent < 0 || it->parent >= token)
        return false;
    const jsmntok_t *const parent = &json->tokens[it->parent];
    if (is_key(json, token))
        return it->type == JSMN_STRING && it->size == 1 && it->end < parent->end;
    if (it->type != JSMN_OBJECT && it->type != JSMN_ARRAY && it->size != 0)
        return false;
    if (parent->type == JSMN_ARRAY)
        return it->end < parent->end;
    return parent->type == JSMN_STRING && is_key(json, it->parent);
}

static mdnn_status_t check(const mdnn_json_t *json)
{
    if (json->count < 1 || json->tokens[MDNN_JSON_ROOT].type != JSMN_OBJECT ||
        json->tokens[MDNN_JSON_ROOT].parent >= 0)
        return MDNN_STATUS_BAD_FORMAT;
    for (int i = 1; i < json->count; i++)
        if (!is_proper(json, i))
            return MDNN_STATUS_BAD_FORMAT;
    return MDNN_STATUS_OK;
}

static mdnn_status_t parse(mdnn_json_t *json, size_t bytes)
{
    jsmn_parser parser;
    jsmn_init(&parser);
    const int parsed = jsmn_parse(&parser, json->text, bytes, json->tokens, (unsigned)json->count);
    if (parsed != json->count)
        return MDNN_STATUS_BAD_FORMAT;
    json->c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    if (json->c_locale == (locale_t)0)
        return MDNN_STATUS_OUT_OF_MEMORY;
    return check(json);
}

mdnn_status_t mdnn_json_open(const char *text, size_t bytes, mdnn_json_t **json)
{
    if (bytes > MDNN_JSON_BYTES)
        return MDNN_STATUS_UNSUPPORTED;
    jsmn_parser parser;
    jsmn_init(&parser);
    const int count = jsmn_parse(&parser, text, bytes, NULL, 0);
    if (count < 1)
        return MDNN_STATUS_BAD_FORMAT;
    mdnn_json_t *const made = calloc(1, sizeof *made + (size_t)count * sizeof *made->tokens);
    if (!made)
        return MDNN_STATUS_OUT_OF_MEMORY;
    made->text = text;
    made->count = count;
    const mdnn_status_t status = parse(made, bytes);
    if (status == MDNN_STATUS_OK)
        *json = made;
    else
        mdnn_json_close(made);
    return status;
}

void mdnn_json_close(mdnn_json_t *json)
{
    if (!json)
        return;
    if (json->c_locale != (locale_t)0)
        freelocale(json->c_locale);
    free(json);
}

/* The token behind everything that `token` holds. */
static int skip(const mdnn_json_t *json, int token)
{
    const int end = json->tokens[token].end;
    int next = token + 1;
    while (next < json->count && json->tokens[next].start < end)
        next++;
    return next;
}

static int child_or_none(const mdnn_json_t *json, int parent, int token)
{
    return token < json->count && json->tokens[token].parent == parent ? token : -1;
}

/* Of an object: its keys. */
static int first_child(const mdnn_json_t *json, int parent)
{
    return child_or_none(json, parent, parent + 1);
}

static bool is_of(const mdnn_json_t *json, int value, jsmntype_t type)
{
    return value >= 0 && value < json->count && json->tokens[value].type == type;
}

static int first_key(const mdnn_json_t *json, int object)
{
    return is_of(json, object, JSMN_OBJECT) ? first_child(json, object) : -1;
}

static int next_key(const mdnn_json_t *json, int object, int key)
{
    return child_or_none(json, object, skip(json, key + 1)); /* a key's value is the next token */
}

static bool equals(const mdnn_json_t *json, int token, const char *name)
{
    const jsmntok_t *const it = &json->tokens[token];
    const size_t bytes = (size_t)(it->end - it->start);
    return strlen(name) == bytes && memcmp(json->text + it->start, name, bytes) == 0;
}

int mdnn_json_member(const mdnn_json_t *json, int object, const char *key)
{
    for (int at = first_key(json, object); at >= 0; at = next_key(json, object, at))
        if (equals(json, at, key))
            return at + 1;
    return -1;
}

bool mdnn_json_is_array(const mdnn_json_t *json, int value)
{
    return is_of(json, value, JSMN_ARRAY);
}

int mdnn_json_first(const mdnn_json_t *json, int array)
{
    return mdnn_json_is_array(json, array) ? first_child(json, array) : -1;
}

int mdnn_json_next(const mdnn_json_t *json, int array, int element)
{
    return child_or_none(json, array, skip(json, element));
}

bool mdnn_json_named(const mdnn_json_t *json, int value, const mdnn_json_name_t *names,
                     int32_t *number)
{
    if (!is_of(json, value, JSMN_STRING))
        return false;
    for (; names->name; names++)
        if (equals(json, value, names->name)) {
            *number = names->number;
            return true;
        }
    return false;
}

/* A copy of the token, ended by a zero, if it is as long as a number may be and has no other
 * letters. */
enum { NUMBER_BYTES = 64 };
static bool copy_number(const mdnn_json_t *json, int token, const char *letters,
                        char copy[NUMBER_BYTES])
{
    const jsmntok_t *const it = &json->tokens[token];
    const size_t bytes = (size_t)(it->end - it->start);
    if (bytes == 0 || bytes >= NUMBER_BYTES)
        return false;
    memcpy(copy, json->text + it->start, bytes);
    copy[bytes] = '\0';
    return strspn(copy, letters) == bytes;
}

static bool read_int64(const mdnn_json_t *json, int token, int64_t *number)
{
    char copy[NUMBER_BYTES], *end;
    if (!copy_number(json, token, "-0123456789", copy))
        return false;
    errno = 0;
    const long long parsed = strtoll(copy, &end, 10);
    if (errno != 0 || *end != '\0')
        return false;
    *number = parsed;
    return true;
}

bool mdnn_json_int(const mdnn_json_t *json, int value, int32_t *number)
{
    int64_t wide;
    if (!is_of(json, value, JSMN_PRIMITIVE) || !read_int64(json, value, &wide) ||
        wide < INT32_MIN || wide > INT32_MAX)
        return false;
    *number = (int32_t)wide;
    return true;
}

static bool read_double(const mdnn_json_t *json, int value, double *number)
{
    char copy[NUMBER_BYTES], *end;
    if (!is_of(json, value, JSMN_PRIMITIVE) || !copy_number(json, value, "-+.eE0123456789", copy))
        return false;
    const double parsed = strtod_l(copy, &end, json->c_locale);
    if (*end != '\0' || !isfinite(parsed))
        return false;
    *number = parsed;
    return true;
}

static bool read_bool(const mdnn_json_t *json, int value, bool *truth)
{
    if (!is_of(json, value, JSMN_PRIMITIVE))
        return false;
    const bool yes = equals(json, value, "true");
    if (!yes && !equals(json, value, "false"))
        return false;
    *truth = yes;
    return true;
}

static bool read_list(const mdnn_json_t *json, int value, mdnn_json_list_t *list)
{
    if (!mdnn_json_is_array(json, value))
        return false;
    list->count = 0;
    for (int at = mdnn_json_first(json, value); at >= 0; at = mdnn_json_next(json, value, at))
        if (list->count == MDNN_JSON_LIST || !mdnn_json_int(json, at, &list->at[list->count++]))
            return false;
    return true;
}

static bool read_field(const mdnn_json_t *json, int value, const mdnn_json_field_t *field,
                       void *into)
{
    if (field->kind == MDNN_JSON_ANYTHING)
        return true;
    void *const at = (char *)into + field->offset;
    switch (field->kind) {
    case MDNN_JSON_INT:
        return mdnn_json_int(json, value, at);
    case MDNN_JSON_DOUBLE:
        return read_double(json, value, at);
    case MDNN_JSON_BOOL:
        return read_bool(json, value, at);
    case MDNN_JSON_INTS:
        return read_list(json, value, at);
    case MDNN_JSON_DECIMAL:
        return is_of(json, value, JSMN_STRING) && read_int64(json, value, at);
    case MDNN_JSON_NAME:
        return mdnn_json_named(json, value, field->names, at);
    case MDNN_JSON_ANYTHING:
        break;
    }
    return false;
}

bool mdnn_json_fields(const mdnn_json_t *json, int object, const mdnn_json_field_t *fields,
                      void *into)
{
    uint32_t seen = 0, required = 0;
    if (!is_of(json, object, JSMN_OBJECT))
        return false;
    for (int i = 0; fields[i].key; i++)
        required |= (uint32_t)fields[i].required << i;
    for (int at = first_key(json, object); at >= 0; at = next_key(json, object, at)) {
        int i = 0;
        while (fields[i].key && !equals(json, at, fields[i].key))
            i++;
        if (!fields[i].key || seen >> i & 1 || !read_field(json, at + 1, &fields[i], into))
            return false;
        seen |= UINT32_C(1) << i;
    }
    return (seen & required) == required;
}
