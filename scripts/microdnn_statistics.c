#include "scripts/microdnn_statistics.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define JSMN_STATIC
#define JSMN_STRICT
#define JSMN_PARENT_LINKS
#include <jsmn.h>

#include "scripts/microdnn.h"

static const char json_beginning[] = "{\"microdnn_statistics\": ";

/* ---- files ---- */

bool tool_statistics_are_json(const char *text)
{
    return strncmp(text, json_beginning, sizeof json_beginning - 1) == 0;
}

/* JSON of another version may mean something else by the same names. */
static bool is_known_version(const char *path, const char *json)
{
    const char *const text = json + sizeof json_beginning - 1;
    char *end;
    const long version = strtol(text, &end, 10);
    if (end == text || (*end != ',' && *end != '}')) {
        tool_complain("%s: these statistics are damaged: they do not say their version", path);
        return false;
    }
    if (version == MDNN_STATISTICS_JSON_VERSION)
        return true;
    tool_complain("%s: version %ld of statistics; this microdnn reads version %d", path, version,
                  MDNN_STATISTICS_JSON_VERSION);
    return false;
}

/* Of a live file, if that is what the file is; 0: it is not. */
static uint32_t live_version(const char *path)
{
    struct {
        char magic[8];
        uint32_t version;
    } head = {.version = 0};
    FILE *const in = fopen(path, "re");
    const bool live = in != NULL && fread(&head, sizeof head, 1, in) == 1 &&
                      memcmp(head.magic, MDNN_STATISTICS_MAGIC, sizeof head.magic) == 0;
    if (in != NULL)
        fclose(in);
    return live ? head.version : 0;
}

static void complain_of_format(const char *path, mdnn_statistics_format_t format)
{
    const uint32_t version = live_version(path);
    if (version != 0 && version != MDNN_STATISTICS_VERSION)
        tool_complain("%s: version %u of a live file; this microdnn reads version %d", path,
                      (unsigned)version, MDNN_STATISTICS_VERSION);
    else if (version != 0)
        tool_complain("%s: the live file is damaged", path);
    else if (format == MDNN_STATISTICS_JSON)
        tool_complain("%s: not a live file, nor statistics as JSON (general.stats = json)", path);
    else
        tool_complain("%s: not a statistics file", path);
}

char *tool_statistics_text(const char *path, mdnn_statistics_format_t format, size_t *bytes)
{
    char *text = NULL;
    FILE *const out = open_memstream(&text, bytes);
    mdnn_status_t status =
        out == NULL ? MDNN_STATUS_OUT_OF_MEMORY : mdnn_statistics_print_file(path, format, out);
    if (out != NULL && fclose(out) != 0)
        status = MDNN_STATUS_OUT_OF_MEMORY;
    if (status == MDNN_STATUS_OK &&
        (!tool_statistics_are_json(text) || is_known_version(path, text)))
        return text;
    free(text);
    if (status == MDNN_STATUS_BAD_FORMAT)
        complain_of_format(path, format);
    else if (status != MDNN_STATUS_OK)
        tool_complain("%s: %s", path, tool_why_unreadable(path, status));
    return NULL;
}

/* ---- JSON ---- */

/* The tokens are in the order of the text: a container precedes what it holds. */
typedef struct document {
    const char *path, *text;
    jsmntok_t *tokens;
    int count;
    bool damaged; /* which was said */
} document_t;

static bool parse(document_t *document, size_t bytes)
{
    jsmn_parser parser;
    jsmn_init(&parser);
    document->count = jsmn_parse(&parser, document->text, bytes, NULL, 0);
    if (document->count < 1)
        return false;
    document->tokens = calloc((size_t)document->count, sizeof *document->tokens);
    if (document->tokens == NULL)
        return false;
    jsmn_init(&parser);
    return jsmn_parse(&parser, document->text, bytes, document->tokens,
                      (unsigned)document->count) == document->count &&
           document->tokens[0].type == JSMN_OBJECT;
}

/* The next child of `container` from `token` on; -1 if there is none. */
static int child_from(const document_t *document, int container, int token)
{
    for (;
         token < document->count && document->tokens[token].start < document->tokens[container].end;
         token++)
        if (document->tokens[token].parent == container)
            return token;
    return -1;
}

static bool is_text(const document_t *document, int token, const char *text)
{
    const jsmntok_t *const found = &document->tokens[token];
    const size_t bytes = (size_t)(found->end - found->start);
    return strlen(text) == bytes && memcmp(document->text + found->start, text, bytes) == 0;
}

/* Said once: the first mistake explains the others. */
static void say_damaged(document_t *document, const char *name, const char *what)
{
    if (!document->damaged)
        tool_complain("%s: these statistics are damaged: %s %s", document->path, name, what);
    document->damaged = true;
}

/* The value of a member; -1: there is none. */
static int find_member(const document_t *document, int object, const char *name)
{
    for (int key = child_from(document, object, object + 1); key >= 0;
         key = child_from(document, object, key + 1))
        if (document->tokens[key].size == 1 && key + 1 < document->count &&
            is_text(document, key, name))
            return key + 1;
    return -1;
}

enum presence { REQUIRED, OPTIONAL };

/* The same, if it has this type; otherwise -1, and it is damaged, unless there may be none. */
static int member(document_t *document, int object, const char *name, jsmntype_t type,
                  enum presence presence)
{
    static const char *const nouns[] = {[JSMN_OBJECT] = "is not an object",
                                        [JSMN_ARRAY] = "is not a list",
                                        [JSMN_STRING] = "is not a text",
                                        [JSMN_PRIMITIVE] = "is not a number"};
    const int found = find_member(document, object, name);
    if (found >= 0 && document->tokens[found].type == type)
        return found;
    if (found >= 0)
        say_damaged(document, name, nouns[type]);
    else if (presence == REQUIRED)
        say_damaged(document, name, "is missing");
    return -1;
}

/* Digits alone, of at most `most`. */
static bool whole_number(const document_t *document, int token, uint64_t most, uint64_t *number)
{
    const jsmntok_t *const found = &document->tokens[token];
    uint64_t value = 0;
    for (int i = found->start; i < found->end; i++) {
        const char c = document->text[i];
        if (c < '0' || c > '9' || __builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, (uint64_t)(c - '0'), &value))
            return false;
    }
    *number = value;
    return found->type == JSMN_PRIMITIVE && found->end > found->start && value <= most;
}

static uint64_t read_count(document_t *document, int object, const char *name, uint64_t most,
                           enum presence presence)
{
    uint64_t number = 0;
    const int found = member(document, object, name, JSMN_PRIMITIVE, presence);
    if (found >= 0 && !whole_number(document, found, most, &number))
        say_damaged(document, name, "is not a whole number, or too large");
    return found >= 0 ? number : 0;
}

/* `none` for null, and without the member. */
static double read_ms(document_t *document, int object, const char *name, double none)
{
    char *end;
    const int found = member(document, object, name, JSMN_PRIMITIVE, OPTIONAL);
    if (found < 0 || is_text(document, found, "null"))
        return none;
    /* The text ends with a brace, so there is an end. */
    const double value = strtod(document->text + document->tokens[found].start, &end);
    if (end != document->text + document->tokens[found].end || !(value >= 0) || value >= 1e12)
        say_damaged(document, name, "is not a time");
    return value;
}

static bool read_truth(document_t *document, int object, const char *name)
{
    const int found = member(document, object, name, JSMN_PRIMITIVE, OPTIONAL);
    if (found >= 0 && !is_text(document, found, "true") && !is_text(document, found, "false"))
        say_damaged(document, name, "is not true or false");
    return found >= 0 && is_text(document, found, "true");
}

/* A character as UTF-8; halves of a pair become '?'. */
static size_t put_character(unsigned long character, char bytes[3])
{
    if (character == 0 || (character >= 0xd800 && character < 0xe000))
        character = '?';
    if (character < 0x80) {
        bytes[0] = (char)character;
        return 1;
    }
    size_t used = 0;
    if (character < 0x800) {
        bytes[used++] = (char)(0xc0 | character >> 6);
    } else {
        bytes[used++] = (char)(0xe0 | character >> 12);
        bytes[used++] = (char)(0x80 | (character >> 6 & 0x3f));
    }
    bytes[used++] = (char)(0x80 | (character & 0x3f));
    return used;
}

/* One character or escape of a string, which jsmn has checked. Returns how many bytes it had. */
static int take_character(const char *from, char bytes[3], size_t *count)
{
    static const char letters[] = "bfnrt", meant[] = "\b\f\n\r\t";
    *count = 1;
    bytes[0] = from[0];
    if (from[0] != '\\')
        return 1;
    if (from[1] != 'u') {
        const char *const letter = strchr(letters, from[1]);
        bytes[0] = letter != NULL ? meant[letter - letters] : from[1];
        return 2;
    }
    char digits[5] = {0};
    memcpy(digits, from + 2, 4);
    *count = put_character(strtoul(digits, NULL, 16), bytes);
    return 6;
}

static void copy_text(document_t *document, int token, const char *name, char *text, size_t bytes)
{
    size_t used = 0;
    for (int i = document->tokens[token].start; i < document->tokens[token].end;) {
        char character[3];
        size_t count;
        i += take_character(document->text + i, character, &count);
        if (used + count >= bytes) {
            say_damaged(document, name, "is too long");
            break;
        }
        memcpy(text + used, character, count);
        used += count;
    }
    text[used] = '\0';
}

/* Empty for null, and without the member. */
static void read_text(document_t *document, int object, const char *name, enum presence presence,
                      char *text, size_t bytes)
{
    text[0] = '\0';
    const int value = find_member(document, object, name);
    if (value >= 0 && presence == OPTIONAL && is_text(document, value, "null"))
        return;
    const int found = member(document, object, name, JSMN_STRING, presence);
    if (found >= 0)
        copy_text(document, found, name, text, bytes);
}
#define READ_TEXT(document, object, name, presence, array)                                         \
    read_text(document, object, name, presence, array, sizeof(array))

/* ---- the record ---- */

static const char *meaning_of(const document_t *document, int key)
{
    static const mdnn_statistics_name_t counters[] = {
#define COUNTER(name, meaning) {#name, meaning},
#include "config/counters.def"
#undef COUNTER
    };
    for (size_t i = 0; i < sizeof counters / sizeof *counters; i++)
        if (is_text(document, key, counters[i].name))
            return counters[i].meaning;
    return NULL;
}

/* A counter that this version does not know means its name. */
static void read_counters(document_t *document, int object, mdnn_statistics_name_t *names,
                          uint64_t *values)
{
    int place = 0;
    for (int key = child_from(document, object, object + 1); key >= 0;
         key = child_from(document, object, key + 1), place++) {
        copy_text(document, key, "counters", names[place].name, sizeof names->name);
        const char *const meaning = meaning_of(document, key);
        snprintf(names[place].meaning, sizeof names->meaning, "%s",
                 meaning != NULL ? meaning : names[place].name);
        if (document->tokens[key].size != 1 || key + 1 >= document->count ||
            !whole_number(document, key + 1, UINT64_MAX, &values[place]))
            say_damaged(document, names[place].name, "is not a whole number");
    }
}

static void read_forecasts(document_t *document, int device, mdnn_memory_statistics_t *numbers)
{
    const int list = member(document, device, "forecast", JSMN_ARRAY, OPTIONAL);
    int place = 0;
    for (int item = list < 0 ? -1 : child_from(document, list, list + 1); item >= 0;
         item = child_from(document, list, item + 1), place++) {
        if (document->tokens[item].type != JSMN_OBJECT || place == MDNN_MEMORY_FORECASTS) {
            say_damaged(document, "forecast", "has something else in it");
            return;
        }
        mdnn_memory_forecast_t *const forecast = &numbers->forecast[place];
        forecast->budget_bytes = read_count(document, item, "budget_bytes", UINT64_MAX, REQUIRED);
        forecast->moved_bytes = read_count(document, item, "moved_bytes", UINT64_MAX, REQUIRED);
        forecast->predicted_ms = read_ms(document, item, "predicted_ms", 0);
        (void)read_ms(document, item, "ms", 0);
    }
}

static void read_device(document_t *document, int device, mdnn_memory_statistics_t *numbers)
{
#define MEMORY_COUNT(name)                                                                         \
    numbers->name = read_count(document, device, #name, UINT64_MAX, OPTIONAL);
#define MEMORY_BYTES MEMORY_COUNT
#define MEMORY_MS(name) numbers->name = read_ms(document, device, #name, 0);
#include "config/memory_statistics.def"
#undef MEMORY_COUNT
#undef MEMORY_BYTES
#undef MEMORY_MS
    read_forecasts(document, device, numbers);
    (void)read_ms(document, device, "without_moves_ms", 0);
    READ_TEXT(document, device, "policy", OPTIONAL, numbers->policy);
    READ_TEXT(document, device, "safety", OPTIONAL, numbers->safety);
    READ_TEXT(document, device, "plan_state", OPTIONAL, numbers->plan_state);
    READ_TEXT(document, device, "device_name", OPTIONAL, numbers->device_name);
    READ_TEXT(document, device, "first_unnamed", OPTIONAL, numbers->first_unnamed);
    READ_TEXT(document, device, "tails", OPTIONAL, numbers->tails);
}

static void read_devices(document_t *document, int list, mdnn_statistics_memory_t *memory)
{
    for (int item = list < 0 ? -1 : child_from(document, list, list + 1); item >= 0;
         item = child_from(document, list, item + 1)) {
        if (document->tokens[item].type != JSMN_OBJECT) {
            say_damaged(document, "memory", "has something else in it");
            return;
        }
        const uint64_t device = read_count(document, item, "device", MDNN_DEVICES - 1, REQUIRED);
        if (document->damaged)
            return;
        atomic_store(&memory[device].sequence, 2);
        read_device(document, item, &memory[device].numbers);
    }
}

static void read_rows(document_t *document, int list, mdnn_statistics_slot_t *rows)
{
    for (int item = child_from(document, list, list + 1); item >= 0;
         item = child_from(document, list, item + 1), rows++) {
        if (document->tokens[item].type != JSMN_OBJECT) {
            say_damaged(document, "convolutions", "has something else in it");
            return;
        }
        mdnn_statistics_row_t *const row = &rows->row;
        READ_TEXT(document, item, "problem", REQUIRED, row->problem);
        READ_TEXT(document, item, "configuration", OPTIONAL, row->configuration);
        READ_TEXT(document, item, "key", OPTIONAL, row->key);
        row->device = (int32_t)read_count(document, item, "device", INT32_MAX, OPTIONAL);
        row->workspace_bytes = read_count(document, item, "workspace_bytes", UINT64_MAX, OPTIONAL);
        row->undivided_ms = read_ms(document, item, "undivided_ms", -1);
        row->configuration_ms = read_ms(document, item, "configuration_ms", -1);
        atomic_store(&rows->sequence, 2);
    }
}

/* [convolution, stream, x, w, y] */
static bool read_execution(const document_t *document, int item, int rows,
                           mdnn_statistics_cell_t *cell)
{
    uint64_t numbers[5];
    if (document->tokens[item].type != JSMN_ARRAY || document->tokens[item].size != 5 ||
        item + 5 >= document->count)
        return false;
    for (int i = 0; i < 5; i++)
        if (document->tokens[item + 1 + i].parent != item ||
            !whole_number(document, item + 1 + i, INT32_MAX, &numbers[i]))
            return false;
    atomic_store(&cell->row, (uint32_t)numbers[0] + 1);
    cell->stream = numbers[1];
    cell->x = numbers[2];
    cell->w = numbers[3];
    cell->y = numbers[4];
    return numbers[0] < (uint64_t)rows;
}

static void read_executions(document_t *document, int list, int rows, mdnn_statistics_cell_t *cells)
{
    for (int item = list < 0 ? -1 : child_from(document, list, list + 1); item >= 0;
         item = child_from(document, list, item + 1), cells++)
        if (!read_execution(document, item, rows, cells)) {
            say_damaged(document, "executions", "has something else in it");
            return;
        }
}

static void read_header(document_t *document, mdnn_statistics_header_t *header)
{
    struct tm parts = {0};
    char started[40];
    READ_TEXT(document, 0, "program", REQUIRED, header->program);
    READ_TEXT(document, 0, "host", REQUIRED, header->host);
    READ_TEXT(document, 0, "version", REQUIRED, header->library_version);
    READ_TEXT(document, 0, "started", REQUIRED, started);
    header->process = read_count(document, 0, "process", UINT64_MAX, REQUIRED);
    atomic_store(&header->finished, read_truth(document, 0, "finished"));
    const char *const end = strptime(started, "%Y-%m-%dT%H:%M:%SZ", &parts);
    header->started = end != NULL && *end == '\0' ? (int64_t)timegm(&parts) : INT64_MAX;
    header->version = MDNN_STATISTICS_VERSION;
    header->byte_order = MDNN_STATISTICS_BYTE_ORDER;
    memcpy(header->magic, MDNN_STATISTICS_MAGIC, sizeof header->magic);
}

static void check_verdict(document_t *document)
{
    const int list = member(document, 0, "verdict", JSMN_ARRAY, OPTIONAL);
    for (int item = list < 0 ? -1 : child_from(document, list, list + 1); item >= 0;
         item = child_from(document, list, item + 1))
        if (document->tokens[item].type != JSMN_STRING)
            say_damaged(document, "verdict", "has something else in it");
}

static size_t size_of(const document_t *document, int container)
{
    return container < 0 ? 0 : (size_t)document->tokens[container].size;
}

/* Everything in the order of the layout, with as much room as there is of each. */
static void lay_out(mdnn_statistics_header_t *header, size_t counters, size_t rows, size_t cells)
{
    header->names_offset = sizeof *header;
    header->counter_count = (uint32_t)counters;
    header->name_bytes = sizeof(mdnn_statistics_name_t);
    header->counters_offset = header->names_offset + counters * sizeof(mdnn_statistics_name_t);
    header->memory_offset = header->counters_offset + counters * sizeof(uint64_t);
    header->memory_count = MDNN_DEVICES;
    header->memory_bytes = sizeof(mdnn_statistics_memory_t);
    header->rows_offset = header->memory_offset + MDNN_DEVICES * sizeof(mdnn_statistics_memory_t);
    header->row_capacity = (uint32_t)rows;
    header->row_bytes = sizeof(mdnn_statistics_slot_t);
    header->executions_offset = header->rows_offset + rows * sizeof(mdnn_statistics_slot_t);
    header->execution_capacity = (uint32_t)cells;
    header->execution_bytes = sizeof(mdnn_statistics_cell_t);
    atomic_store(&header->executions_taken, (uint32_t)cells);
    header->total_bytes = header->executions_offset + cells * sizeof(mdnn_statistics_cell_t);
}

static bool read_record(document_t *document, tool_statistics_t *statistics)
{
    mdnn_statistics_header_t header = {.process = 0};
    read_header(document, &header);
    check_verdict(document);
    const int counters = member(document, 0, "counters", JSMN_OBJECT, REQUIRED);
    const int memory = member(document, 0, "memory", JSMN_ARRAY, OPTIONAL);
    const int rows = member(document, 0, "convolutions", JSMN_ARRAY, REQUIRED);
    const int cells = member(document, 0, "executions", JSMN_ARRAY, OPTIONAL);
    const uint64_t dropped =
        read_count(document, 0, "convolutions_not_recorded", UINT32_MAX / 2, OPTIONAL);
    if (document->damaged)
        return false;
    lay_out(&header, size_of(document, counters), size_of(document, rows),
            size_of(document, cells));
    atomic_store(&header.rows_taken, header.row_capacity + (uint32_t)dropped);
    char *const record = calloc(1, header.total_bytes);
    if (record == NULL) {
        tool_complain("%s: %s", document->path, mdnn_status_string(MDNN_STATUS_OUT_OF_MEMORY));
        return false;
    }
    memcpy(record, &header, sizeof header);
    read_counters(document, counters, (void *)(record + header.names_offset),
                  (void *)(record + header.counters_offset));
    read_devices(document, memory, (void *)(record + header.memory_offset));
    read_rows(document, rows, (void *)(record + header.rows_offset));
    read_executions(document, cells, document->tokens[rows].size,
                    (void *)(record + header.executions_offset));
    statistics->record = record;
    statistics->record_bytes = header.total_bytes;
    statistics->header = (const void *)record;
    statistics->rows = (const void *)(record + header.rows_offset);
    statistics->cells = (const void *)(record + header.executions_offset);
    statistics->has_executions = cells >= 0;
    return !document->damaged;
}

bool tool_statistics_parse(const char *path, char *json, size_t bytes,
                           tool_statistics_t *statistics)
{
    document_t document = {.path = path, .text = json};
    *statistics = (tool_statistics_t){.json = json, .json_bytes = bytes};
    bool good = parse(&document, bytes);
    if (good)
        good = read_record(&document, statistics);
    else
        tool_complain("%s: these statistics are damaged: not JSON, or not all of it", path);
    free(document.tokens);
    if (!good)
        tool_statistics_fini(statistics);
    return good;
}

void tool_statistics_fini(tool_statistics_t *statistics)
{
    free(statistics->json);
    free(statistics->record);
    *statistics = (tool_statistics_t){.json = NULL};
}
