#include "offload/memory/short_names.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

typedef struct output {
    char *text;
    size_t used, bytes;
} output_t;

static void put(output_t *out, const char *from, size_t count)
{
    for (size_t i = 0; i < count && out->used + 1 < out->bytes; i++) {
        const char c = from[i];
        out->text[out->used++] = c >= 0x20 && c < 0x7f && c != '"' && c != '\\' ? c : '?';
    }
}

static void put_scope(output_t *out, const char *name, size_t count)
{
    if (out->used > 0)
        put(out, "::", 2);
    put(out, name, count);
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* A name with its length before it: "5saxpy". Behind it; NULL if there is none. */
static const char *read_name(const char *at, const char **name, size_t *count)
{
    size_t length = 0;
    while (is_digit(*at) && length < 100000)
        length = 10 * length + (size_t)(*at++ - '0');
    if (length == 0 || strnlen(at, length) < length)
        return NULL;
    *name = at;
    *count = length;
    return at + length;
}

static bool is_nameless(const char *name, size_t count)
{
    static const char word[] = "_GLOBAL__N_";
    return count >= sizeof word - 1 && memcmp(name, word, sizeof word - 1) == 0;
}

/* Behind "S_", "S1A_", "T_", "T0_", "A10_"; or behind two letters like "St", "Dp". */
static const char *pass_reference(const char *at)
{
    const char *end = at + 1;
    while (is_digit(*end) || (*end >= 'A' && *end <= 'Z'))
        end++;
    if (*end == '_')
        return end + 1;
    return at[1] != '\0' ? at + 2 : at + 1;
}

/* What tells kernels of one template apart: the name of the first argument that has one. */
typedef struct argument {
    const char *name; /* NULL: none */
    size_t count;
    bool complete; /* no scope of it is still to come */
} argument_t;

/* Behind template arguments, "ILi4EN2at5floatEE". */
static const char *pass_arguments(const char *at, argument_t *first)
{
    int depth = 0;
    const char *name;
    size_t count;
    *first = (argument_t){.name = NULL};
    while (at != NULL && *at != '\0') {
        if (is_digit(*at)) {
            at = read_name(at, &name, &count);
            if (at != NULL && !first->complete && !is_nameless(name, count)) {
                first->name = name;
                first->count = count;
                first->complete = !is_digit(*at);
            }
            continue;
        }
        if (*at == 'S' || *at == 'T' || *at == 'A' || *at == 'D') {
            at = pass_reference(at);
            continue;
        }
        if (*at == 'L') { /* "Li4E", "Lb0E": the digits are no length */
            at++;
            while (*at != '\0' && *at != 'E' && *at != 'N' && *at != '_' && *at != 'S' &&
                   !is_digit(*at))
                at++;
            if (is_digit(*at))
                at += strcspn(at, "E");
            depth++;
            continue;
        }
        depth += strchr("INXJF", *at) != NULL;
        depth -= *at == 'E';
        at++;
        if (depth == 0)
            break;
    }
    return at;
}

/* Scope after scope, as far as names go. */
static void put_mangled(output_t *out, const char *at)
{
    const bool nested = *at == 'N';
    if (nested)
        at += 1 + strspn(at + 1, "rVK");
    while (at != NULL && *at != '\0') {
        const char *name = NULL;
        size_t count = 0;
        if (*at == 'L')
            at++;
        if (is_digit(*at)) {
            at = read_name(at, &name, &count);
            if (at != NULL && !is_nameless(name, count))
                put_scope(out, name, count);
        } else if (*at == 'S' && at[1] == 't') {
            put_scope(out, "std", 3);
            at += 2;
        } else if (*at == 'I') {
            argument_t first;
            at = pass_arguments(at, &first);
            const bool is_last = !nested || at == NULL || *at == 'E' || *at == '\0';
            if (is_last && first.name != NULL) {
                put(out, "<", 1);
                put(out, first.name, first.count);
                put(out, ">", 1);
            }
        } else {
            return;
        }
        if (!nested && (at == NULL || *at != 'I'))
            return;
    }
}

void mdnn_short_name(const char *name, char *text, size_t bytes)
{
    output_t out = {text, 0, bytes};
    if (name[0] == '_' && name[1] == 'Z')
        put_mangled(&out, name + 2);
    if (out.used == 0)
        put(&out, name, strlen(name));
    text[out.used] = '\0';
}

const char *mdnn_short_names_get(mdnn_short_names_t *names, const char *name)
{
    const uint64_t mixed = (uint64_t)(uintptr_t)name * UINT64_C(0x9e3779b97f4a7c15);
    const size_t at = (size_t)(mixed >> 32) % MDNN_SHORT_NAMES;
    if (names->known[at].name != name) {
        mdnn_short_name(name, names->known[at].text, sizeof names->known[at].text);
        names->known[at].name = name;
    }
    return names->known[at].text;
}
