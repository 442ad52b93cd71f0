#include "test/sim/cudnn/json_tree.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

enum { DEPTH_MAX = 16 };

typedef struct reader {
    char *at; /* in a copy of the text, into which ends of strings are written */
    sim_json_t *values;
    size_t count, room;
} reader_t;

/* The root is the first value, its block begins with the copy of the text. */
typedef struct tree {
    char *text;
    sim_json_t values[];
} tree_t;

static void skip(reader_t *reader)
{
    reader->at += strspn(reader->at, " \t\r\n");
}

static bool take(reader_t *reader, char wanted)
{
    skip(reader);
    if (*reader->at != wanted)
        return false;
    reader->at++;
    return true;
}

static const char *read_text(reader_t *reader)
{
    char *const begin = reader->at;
    while (*reader->at && *reader->at != '"')
        reader->at += *reader->at == '\\' && reader->at[1] ? 2 : 1;
    if (*reader->at != '"')
        return NULL;
    *reader->at++ = '\0';
    return begin;
}

static bool read_word(reader_t *reader, sim_json_t *value)
{
    static const struct {
        const char *word;
        sim_json_kind_t kind;
        bool truth;
    } words[] = {
        {"true", JSON_TRUTH, true}, {"false", JSON_TRUTH, false}, {"null", JSON_NULL, false}};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (!strncmp(reader->at, words[i].word, strlen(words[i].word))) {
            reader->at += strlen(words[i].word);
            value->kind = words[i].kind;
            value->truth = words[i].truth;
            return true;
        }
    return false;
}

static bool read_number(reader_t *reader, sim_json_t *value)
{
    char *end, *integer_end;
    value->kind = JSON_NUMBER;
    value->number = strtod(reader->at, &end);
    value->integer = strtoll(reader->at, &integer_end, 10);
    if (end == reader->at || strchr("nNiI", *reader->at))
        return false;
    if (integer_end != end)
        value->integer =
            (int64_t)(value->number > -9e18 && value->number < 9e18 ? value->number : 0);
    reader->at = end;
    return true;
}

static sim_json_t *read_value(reader_t *reader, int depth);

static bool read_children(reader_t *reader, sim_json_t *value, char close, int depth)
{
    const sim_json_t **last = &value->first;
    if (take(reader, close))
        return true;
    do {
        const char *name = NULL;
        if (value->kind == JSON_OBJECT) {
            name = take(reader, '"') ? read_text(reader) : NULL;
            if (!name || !take(reader, ':'))
                return false;
        }
        sim_json_t *const child = read_value(reader, depth + 1);
        if (!child)
            return false;
        child->name = name;
        *last = child;
        last = &child->next;
    } while (take(reader, ','));
    return take(reader, close);
}

static sim_json_t *read_value(reader_t *reader, int depth)
{
    if (depth > DEPTH_MAX || reader->count == reader->room)
        return NULL;
    sim_json_t *const value = &reader->values[reader->count++];
    memset(value, 0, sizeof *value);
    bool good;
    if (take(reader, '{')) {
        value->kind = JSON_OBJECT;
        good = read_children(reader, value, '}', depth);
    } else if (take(reader, '[')) {
        value->kind = JSON_ARRAY;
        good = read_children(reader, value, ']', depth);
    } else if (take(reader, '"')) {
        value->kind = JSON_TEXT;
        value->text = read_text(reader);
        good = value->text;
    } else
        good = read_word(reader, value) || read_number(reader, value);
    return good ? value : NULL;
}

/* As many values as there can be: one for each separator, and the root. */
static size_t values_in(const char *text)
{
    size_t count = 2;
    for (; *text; text++)
        count += strchr(",[{", *text) != NULL;
    return count;
}

const sim_json_t *sim_json_read(const char *text)
{
    const size_t room = values_in(text);
    tree_t *const tree = malloc(sizeof *tree + room * sizeof *tree->values);
    if (!tree)
        return NULL;
    tree->text = strdup(text);
    reader_t reader = {tree->text, tree->values, 0, room};
    sim_json_t *const root = tree->text ? read_value(&reader, 0) : NULL;
    if (root)
        skip(&reader);
    if (!root || *reader.at) {
        free(tree->text);
        free(tree);
        return NULL;
    }
    return root;
}

void sim_json_free(const sim_json_t *root)
{
    if (!root)
        return;
    tree_t *const tree = (tree_t *)((char *)root - offsetof(tree_t, values));
    free(tree->text);
    free(tree);
}

const sim_json_t *sim_json_member(const sim_json_t *object, const char *name)
{
    if (!object || object->kind != JSON_OBJECT)
        return NULL;
    for (const sim_json_t *child = object->first; child; child = child->next)
        if (!strcmp(child->name, name))
            return child;
    return NULL;
}

const char *sim_json_text(const sim_json_t *value)
{
    return value && value->kind == JSON_TEXT ? value->text : NULL;
}

int64_t sim_json_integer(const sim_json_t *value, int64_t otherwise)
{
    return value && value->kind == JSON_NUMBER ? value->integer : otherwise;
}

double sim_json_number(const sim_json_t *value, double otherwise)
{
    return value && value->kind == JSON_NUMBER ? value->number : otherwise;
}

int64_t sim_json_integers(const sim_json_t *array, int64_t most, int64_t *out)
{
    int64_t count = 0;
    if (!array || array->kind != JSON_ARRAY)
        return -1;
    for (const sim_json_t *child = array->first; child; child = child->next) {
        if (child->kind != JSON_NUMBER || count == most)
            return -1;
        out[count++] = child->integer;
    }
    return count;
}
