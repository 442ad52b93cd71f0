#include "shim/real/kernel_signature.h"

#include <stdlib.h>
#include <string.h>

#include <libiberty/demangle.h>

/* The demangler keeps about a hundred bytes for each character on the stack. */
enum { LONGEST_NAME = 2 << 10 };

/* A parameter's type. `depth`: how many pointers lead to `base`, which has no const in front or behind. */
typedef struct type {
    const char *base;
    size_t bytes;
    uint32_t depth;
    bool fixed; /* the outermost pointer leads to what is const */
} type_t;

/* ---- types ---- */

static bool ends_with(const char *start, size_t bytes, const char *word)
{
    const size_t length = strlen(word);
    return bytes >= length && memcmp(start + bytes - length, word, length) == 0;
}

/* Takes spaces and qualifiers off the end; whether one of them was const. */
static bool strip_qualifiers(const char *start, size_t *bytes)
{
    static const char *const qualifiers[] = {" volatile", " __restrict", " restrict"};
    bool constant = false, more = true;
    while (more) {
        more = false;
        for (; *bytes > 0 && start[*bytes - 1] == ' '; more = true)
            (*bytes)--;
        for (size_t i = 0; i < sizeof qualifiers / sizeof *qualifiers; i++)
            for (; ends_with(start, *bytes, qualifiers[i]); more = true)
                *bytes -= strlen(qualifiers[i]);
        for (; ends_with(start, *bytes, " const"); more = constant = true)
            *bytes -= strlen(" const");
    }
    return constant;
}

/* As the demangler writes it: qualifiers stand behind what they qualify. */
static type_t read_type(const char *start, size_t bytes)
{
    type_t type = {.base = start};
    for (; bytes > 0 && *type.base == ' '; bytes--)
        type.base++;
    (void)strip_qualifiers(type.base, &bytes);
    while (bytes > 0 && type.base[bytes - 1] == '*') {
        bytes--;
        type.depth++;
        const bool constant = strip_qualifiers(type.base, &bytes);
        type.fixed = type.depth == 1 ? constant : type.fixed;
    }
    type.bytes = bytes;
    return type;
}

static bool is_any(const type_t *type)
{
    return (type->bytes == 4 && memcmp(type->base, "void", 4) == 0) ||
           (type->bytes >= 4 && ends_with(type->base, type->bytes, "char"));
}

static bool is_of_same(const type_t *one, const type_t *other)
{
    return (one->bytes == other->bytes && memcmp(one->base, other->base, one->bytes) == 0) ||
           is_any(one) || is_any(other);
}

/* ---- lists of parameters ---- */

/* The bracket that belongs to the one at the end of the text. NULL: there is none. */
static const char *opening(const char *text, const char *end)
{
    int open = 0;
    for (const char *at = end; at > text; at--) {
        open += at[-1] == ')' ? 1 : at[-1] == '(' ? -1 : 0;
        if (open == 0)
            return at - 1;
    }
    return NULL;
}

/* The first comma that is in no bracket, or the end. */
static const char *end_of_type(const char *at, const char *end)
{
    for (int open = 0; at < end && (*at != ',' || open > 0); at++)
        open += strchr("([{<", *at) ? 1 : strchr(")]}>", *at) ? -1 : 0;
    return at;
}

/* At most MDNN_KERNEL_SIGNATURE_PARAMETERS types; their number. */
static uint32_t read_types(const char *text, type_t *types)
{
    const char *const end = text + strlen(text) - 1;
    const char *at = end > text && *end == ')' ? opening(text, end + 1) : NULL;
    uint32_t count = 0;
    for (; at && at < end && count < MDNN_KERNEL_SIGNATURE_PARAMETERS; count++) {
        const char *const start = at + 1;
        at = end_of_type(start, end);
        types[count] = read_type(start, (size_t)(at - start));
    }
    return at == end ? count : 0;
}

static mdnn_kernel_table_t make_table(const type_t *types, uint32_t count, uint32_t parameter)
{
    const type_t *const type = &types[parameter];
    mdnn_kernel_table_t table = {.parameter = parameter, .written = !type->fixed};
    for (uint32_t i = 0; i < count; i++) {
        const uint64_t bit = (uint64_t)1 << i;
        if (i == parameter || !is_of_same(&types[i], type))
            continue;
        table.values |= types[i].depth + 1 == type->depth ? bit : 0;
        table.tables |= types[i].depth == type->depth ? bit : 0;
    }
    return table;
}

mdnn_kernel_signature_t mdnn_kernel_signature(const char *name, uint32_t parameters)
{
    mdnn_kernel_signature_t signature = {0};
    type_t types[MDNN_KERNEL_SIGNATURE_PARAMETERS];
    if (parameters == 0 || parameters > MDNN_KERNEL_SIGNATURE_PARAMETERS ||
        strnlen(name, LONGEST_NAME) == LONGEST_NAME)
        return signature;
    char *const text = cplus_demangle_v3(name, DMGL_PARAMS | DMGL_NO_RECURSE_LIMIT);
    const uint32_t count = text ? read_types(text, types) : 0;
    for (uint32_t i = 0; count == parameters && i < count; i++)
        if (types[i].depth > 1)
            signature.tables[signature.count++] = make_table(types, count, i);
    free(text);
    return signature;
}
