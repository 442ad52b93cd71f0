#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config/numbers.h"
#include "config/options.h"
#include "config/options_reader.h"

static mdnn_options_t options;

/* Messages of the last load. */
enum { MESSAGES_MAX = 64 };
static char messages[MESSAGES_MAX][2048];
static int message_count;

static void collect(void *context, const char *line)
{
    assert_ptr_equal(context, messages);
    if (message_count < MESSAGES_MAX)
        snprintf(messages[message_count], sizeof messages[0], "%s", line);
    message_count++;
}

static int defaults(void **state)
{
    (void)state;
    mdnn_options_set_defaults(&options);
    message_count = 0;
    return 0;
}

static void load(const char *text)
{
    (void)mdnn_options_load_text(&options, "f.ini", text, strlen(text), collect, messages);
}

/* Loads `text` over defaults and expects exactly this one message. */
static void expect_message(const char *text, const char *message)
{
    defaults(NULL);
    load(text);
    assert_int_equal(message_count, 1);
    assert_string_equal(messages[0], message);
}

static void sizes_take_bytes_and_units_and_nothing_else(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        mdnn_status_t status;
        uint64_t bytes;
    } table[] = {
        {"0", MDNN_STATUS_OK, 0},
        {"1", MDNN_STATUS_OK, 1},
        {"12345b", MDNN_STATUS_OK, 12345},
        {"7B", MDNN_STATUS_OK, 7},
        {"1k", MDNN_STATUS_OK, 1024},
        {"1K", MDNN_STATUS_OK, 1024},
        {"1kb", MDNN_STATUS_OK, 1024},
        {"1kB", MDNN_STATUS_OK, 1024},
        {"1KiB", MDNN_STATUS_OK, 1024},
        {"64m", MDNN_STATUS_OK, UINT64_C(64) << 20},
        {"64 MiB", MDNN_STATUS_OK, UINT64_C(64) << 20},
        {"64\tmb", MDNN_STATUS_OK, UINT64_C(64) << 20},
        {"2g", MDNN_STATUS_OK, UINT64_C(2) << 30},
        {"2GIB", MDNN_STATUS_OK, UINT64_C(2) << 30},
        {"3T", MDNN_STATUS_OK, UINT64_C(3) << 40},
        {"1.5g", MDNN_STATUS_OK, UINT64_C(3) << 29},
        {"0.1k", MDNN_STATUS_OK, 102},
        {"0.000001t", MDNN_STATUS_OK, 1099511},
        {"none", MDNN_STATUS_OK, UINT64_MAX},
        {"NONE", MDNN_STATUS_OK, UINT64_MAX},
        {"18446744073709551614", MDNN_STATUS_OK, UINT64_MAX - 1},
        {"18446744073709551615", MDNN_STATUS_OVERFLOW, 0},
        {"18446744073709551616", MDNN_STATUS_OVERFLOW, 0},
        {"99999999999999999999999999", MDNN_STATUS_OVERFLOW, 0},
        {"17179869184g", MDNN_STATUS_OVERFLOW, 0},
        {"17179869183.999999g", MDNN_STATUS_OK, UINT64_MAX - 1073},
        {"16777216t", MDNN_STATUS_OVERFLOW, 0},
        {"", MDNN_STATUS_BAD_FORMAT, 0},
        {" 1", MDNN_STATUS_BAD_FORMAT, 0},
        {"1 ", MDNN_STATUS_OK, 1},
        {"-1", MDNN_STATUS_BAD_FORMAT, 0},
        {"+1", MDNN_STATUS_BAD_FORMAT, 0},
        {"1.5", MDNN_STATUS_BAD_FORMAT, 0},
        {"1.5b", MDNN_STATUS_BAD_FORMAT, 0},
        {"1.k", MDNN_STATUS_BAD_FORMAT, 0},
        {".5k", MDNN_STATUS_BAD_FORMAT, 0},
        {"1,5g", MDNN_STATUS_BAD_FORMAT, 0},
        {"1.1234567g", MDNN_STATUS_BAD_FORMAT, 0},
        {"1e3", MDNN_STATUS_BAD_FORMAT, 0},
        {"0x10", MDNN_STATUS_BAD_FORMAT, 0},
        {"64q", MDNN_STATUS_BAD_FORMAT, 0},
        {"64mm", MDNN_STATUS_BAD_FORMAT, 0},
        {"64mi", MDNN_STATUS_BAD_FORMAT, 0},
        {"64mbit", MDNN_STATUS_BAD_FORMAT, 0},
        {"64 m b", MDNN_STATUS_BAD_FORMAT, 0},
        {"all", MDNN_STATUS_BAD_FORMAT, 0},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        uint64_t bytes = 4711;
        const mdnn_status_t status = mdnn_parse_size(table[i].text, &bytes);
        if (status != table[i].status ||
            bytes != (status == MDNN_STATUS_OK ? table[i].bytes : 4711))
            fail_msg("'%s': status %d, %llu bytes", table[i].text, status,
                     (unsigned long long)bytes);
    }
}

static void a_formatted_size_is_read_back_exactly(void **state)
{
    (void)state;
    static const uint64_t sizes[] = {0,
                                     1,
                                     1023,
                                     1024,
                                     1025,
                                     1536,
                                     1 << 20,
                                     UINT64_C(3) << 40,
                                     UINT64_C(1) << 50,
                                     UINT64_MAX - 1,
                                     UINT64_MAX};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        char text[MDNN_NUMBER_BYTES];
        uint64_t again = 0;
        mdnn_format_size(sizes[i], text, sizeof text);
        assert_int_equal(mdnn_parse_size(text, &again), MDNN_STATUS_OK);
        assert_true(again == sizes[i]);
    }
    char text[MDNN_NUMBER_BYTES];
    mdnn_format_size(UINT64_C(64) << 20, text, sizeof text);
    assert_string_equal(text, "64MiB");
}

static void a_share_is_a_percentage_of_the_device(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        mdnn_status_t status;
        uint64_t of_a_million; /* bytes on a device that has so many */
        const char *shown;
    } table[] = {
        {"80%", MDNN_STATUS_OK, 800000, "80%"},
        {"100 %", MDNN_STATUS_OK, 1000000, "100%"},
        {"12.5%", MDNN_STATUS_OK, 125000, "12.5%"},
        {"0.0001%", MDNN_STATUS_OK, 1, "0.0001%"},
        {"0%", MDNN_STATUS_OVERFLOW, 0, NULL},
        {"100.0001%", MDNN_STATUS_OVERFLOW, 0, NULL},
        {"101%", MDNN_STATUS_OVERFLOW, 0, NULL},
        {"99999999999999999999%", MDNN_STATUS_OVERFLOW, 0, NULL},
        {"-1%", MDNN_STATUS_BAD_FORMAT, 0, NULL},
        {"%", MDNN_STATUS_BAD_FORMAT, 0, NULL},
        {"80%%", MDNN_STATUS_BAD_FORMAT, 0, NULL},
        {"80", MDNN_STATUS_BAD_FORMAT, 0, NULL},
        {"8g%", MDNN_STATUS_BAD_FORMAT, 0, NULL},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        char shown[MDNN_NUMBER_BYTES];
        uint64_t share = 4711;
        assert_int_equal(mdnn_parse_share(table[i].text, &share), table[i].status);
        if (table[i].status != MDNN_STATUS_OK) {
            assert_int_equal(share, 4711);
            continue;
        }
        assert_true(mdnn_size_is_share(share));
        assert_int_equal(mdnn_size_on_device(share, 1000000), table[i].of_a_million);
        mdnn_format_size(share, shown, sizeof shown);
        assert_string_equal(shown, table[i].shown);
    }
    assert_int_equal(mdnn_size_on_device(UINT64_MAX, 1000), UINT64_MAX);
    assert_int_equal(mdnn_size_on_device(4711, 1000), 4711);
}

static void sizes_for_people_have_three_digits(void **state)
{
    (void)state;
    static const struct {
        uint64_t bytes;
        const char *text;
    } table[] = {{0, "0 bytes"},        {1023, "1023 bytes"},        {1024, "1.00 KiB"},
                 {10230, "9.99 KiB"},   {67003000, "63.9 MiB"},      {1048000, "1023 KiB"},
                 {1048575, "1.00 MiB"}, {UINT64_MAX, "16777216 TiB"}};
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        char text[MDNN_NUMBER_BYTES];
        mdnn_format_size_rounded(table[i].bytes, text, sizeof text);
        assert_string_equal(text, table[i].text);
    }
}

static void integers_and_decimals_know_their_limits(void **state)
{
    (void)state;
    int64_t integer = 5;
    assert_int_equal(mdnn_parse_integer("-9223372036854775808", &integer), MDNN_STATUS_OK);
    assert_true(integer == INT64_MIN);
    assert_int_equal(mdnn_parse_integer("9223372036854775808", &integer), MDNN_STATUS_OVERFLOW);
    assert_int_equal(mdnn_parse_integer("12a", &integer), MDNN_STATUS_BAD_FORMAT);
    assert_int_equal(mdnn_parse_integer("-", &integer), MDNN_STATUS_BAD_FORMAT);
    assert_true(integer == INT64_MIN);
    double real = 5;
    assert_int_equal(mdnn_parse_decimal("-2.25", &real), MDNN_STATUS_OK);
    assert_true(real == -2.25);
    assert_int_equal(mdnn_parse_decimal("2.1", &real), MDNN_STATUS_OK);
    assert_true(real == 2.1);
    assert_int_equal(mdnn_parse_decimal("2,1", &real), MDNN_STATUS_BAD_FORMAT);
    assert_int_equal(mdnn_parse_decimal("nan", &real), MDNN_STATUS_BAD_FORMAT);
    assert_int_equal(mdnn_parse_decimal("99999999999999999999999", &real), MDNN_STATUS_OVERFLOW);
    assert_true(real == 2.1);
}

static void decimals_are_written_without_help_of_the_locale(void **state)
{
    (void)state;
    static const struct {
        double value;
        int decimals;
        bool trim;
        const char *text;
    } table[] = {
        {2.0, 6, true, "2"},         {2.5, 6, true, "2.5"},      {0.05, 3, false, "0.050"},
        {-0.0001, 2, false, "0.00"}, {-1.5, 1, false, "-1.5"},   {9.999, 2, false, "10.00"},
        {1e300, 2, false, "inf"},    {-1e300, 2, false, "-inf"}, {NAN, 2, false, "nan"}};
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        char text[MDNN_NUMBER_BYTES];
        mdnn_format_decimal(table[i].value, table[i].decimals, table[i].trim, text, sizeof text);
        assert_string_equal(text, table[i].text);
    }
}

static void defaults_are_those_of_the_list(void **state)
{
    (void)state;
#define OPTION_BOOL(s, k, value, h) assert_true(options.s##_##k == (value));
#define OPTION_INT(s, k, value, low, high, u, h) assert_true(options.s##_##k == (value));
#define OPTION_DOUBLE(s, k, value, low, high, u, h)                                                \
    assert_true(options.s##_##k >= (value) && options.s##_##k <= (value));
#define OPTION_SIZE(s, k, value, low, high, h) assert_true(options.s##_##k == (value));
#define OPTION_SPACE OPTION_SIZE
#define OPTION_ENUM(s, k, value, h) assert_true(options.s##_##k == (int)(value));
#define OPTION_STRING(s, k, value, h) assert_string_equal(options.s##_##k, value);
#include "config/options.def"
    for (int i = 0; i < MDNN_OPTION_COUNT; i++)
        assert_string_equal(options.origin[i], "default");
}

static void every_section_of_the_list_is_known(void **state)
{
    (void)state;
    for (int i = 0; i < MDNN_OPTION_COUNT; i++) {
        int known = 0;
        for (int section = 0; section < MDNN_SECTION_COUNT; section++)
            known += strcmp(mdnn_section_table[section].name, mdnn_option_table[i].section) == 0;
        assert_int_equal(known, 1);
    }
}

static void a_good_file_sets_values_and_origins_without_a_word(void **state)
{
    (void)state;
    load("\xef\xbb\xbf; comment\r\n[general]\r\n  log = TRACE   ; why\r\n\tdisable: yes # why\n\n"
         "[convolution] ; these\npolicy=off\nworkspace_limit = 64 MiB\nadoption_margin=2.5\n"
         "measure_repeats=7\nbatch_sizes = poweroftwo\n[memory]\n[cache]\nfile = /a b;c#d");
    assert_int_equal(message_count, 0);
    assert_int_equal(options.general_log, 5);
    assert_true(options.general_disable);
    assert_int_equal(options.convolution_policy, 0);
    assert_true(options.convolution_workspace_limit == UINT64_C(64) << 20);
    assert_true(options.convolution_adoption_margin == 2.5);
    assert_int_equal(options.convolution_measure_repeats, 7);
    assert_int_equal(options.convolution_batch_sizes, 1);
    assert_string_equal(options.cache_file, "/a b;c#d");
    assert_string_equal(options.origin[MDNN_OPTION_general_log], "f.ini:3");
    assert_string_equal(options.origin[MDNN_OPTION_cache_file], "f.ini:14");
    assert_string_equal(options.origin[MDNN_OPTION_convolution_numerics], "default");
}

static void a_budget_that_is_lost_is_remembered(void **state)
{
    static const struct {
        const char *text, *place;
    } cases[] = {{"[memory]\nbudget = 12 gigabytes", "f.ini:2"},
                 {"[memory]\nbudget = -1", "f.ini:2"},
                 {"[memory]\nbudget", "f.ini:2"},
                 {"[memory]\nbudget 12GiB", "f.ini:2"},
                 {"[memory]\nBudget = 12GiB", "f.ini:2"},
                 {"[memory]\nbugdet = 12GiB", "f.ini:2"},
                 {"[memory]\nbudget = 12\aGiB", "f.ini:2"},
                 {"[memroy]\n\nbudget = 12GiB", "f.ini:3"},
                 {"[memory\nbudget = 12GiB", "f.ini:2"},
                 {"[general]\nbudget = 12GiB", "f.ini:2"},
                 {"budget = 12GiB", "f.ini:1"},
                 {"[memory]\nbudget = none", ""},
                 {"[memory]\nbudget = x\nbudget = 12GiB", ""},
                 {"[memory]\nbudget = 12GiB\nbudget = x", ""},
                 {"[memory]\n; budget = x\npolicy = budget", ""}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        mdnn_options_set_defaults(&options);
        load(cases[i].text);
        assert_string_equal(options.unread_budget, cases[i].place);
    }
}

static void a_budget_may_be_a_share_and_other_sizes_may_not(void **state)
{
    (void)state;
    load("[memory]\nbudget = 80%\n");
    assert_int_equal(message_count, 0);
    assert_int_equal(mdnn_size_on_device(options.memory_budget, 1000), 800);
    defaults(NULL);
    load("[memory]\nhost_limit = 80%\n");
    assert_int_equal(message_count, 1);
    assert_non_null(strstr(messages[0], "'80%' is not a size"));
    defaults(NULL);
    load("[memory]\nbudget = 9223372036854775809\n");
    assert_int_equal(message_count, 1);
    assert_non_null(strstr(messages[0], "is out of range"));
    expect_message(
        "[memory]\nbudget = 101%\n",
        "f.ini:2: memory.budget = '101%' is out of range; accepted: bytes, or a number with "
        "k, m, g, t (powers of 1024) like 64MiB, a share of the device's memory like 80%, "
        "or none; if nothing else sets it, memory is refused, unless memory.strict = no");
}

static void truth_values_have_four_words_each(void **state)
{
    (void)state;
    static const char *const words[2][4] = {{"0", "false", "No", "OFF"},
                                            {"1", "TRUE", "yes", "on"}};
    for (int truth = 0; truth < 2; truth++) {
        for (int i = 0; i < 4; i++) {
            char text[64];
            options.general_disable = !truth;
            snprintf(text, sizeof text, "[general]\ndisable = %s\n", words[truth][i]);
            load(text);
            assert_int_equal(options.general_disable, truth);
        }
    }
    assert_int_equal(message_count, 0);
}

static void an_unknown_section_is_named_and_its_keys_are_ignored(void **state)
{
    (void)state;
    expect_message("[general]\nlog = info\n[genral]\nlog = trace\nwhat = 1\n[cache]\nfile = x\n",
                   "f.ini:3: unknown section [genral], did you mean [general]?; accepted: "
                   "[general] [convolution] [cache] [memory]; its keys are ignored");
    assert_int_equal(options.general_log, 3);
    assert_string_equal(options.cache_file, "x");
    expect_message("[network]\n", "f.ini:1: unknown section [network]; accepted: [general] "
                                  "[convolution] [cache] [memory]; its keys are ignored");
}

static void an_unknown_key_is_named_with_the_nearest_one(void **state)
{
    (void)state;
    expect_message("[general]\nlogfile = x\n",
                   "f.ini:2: unknown key logfile in [general], did you mean log_file?; accepted: "
                   "disable, log, log_file, stats, stats_file; line ignored");
    expect_message("\n\n[general]\nworkspace_limit = 1\n",
                   "f.ini:4: unknown key workspace_limit in [general], it belongs to "
                   "[convolution]; accepted: disable, log, log_file, stats, stats_file; line "
                   "ignored");
    expect_message("[cache]\nvelocity = x\n", "f.ini:2: unknown key velocity in [cache]; accepted: "
                                              "file, import; line ignored");
}

static void a_bad_value_is_shown_with_what_is_accepted_and_what_is_kept(void **state)
{
    (void)state;
    expect_message("[general]\nlog = loud\n",
                   "f.ini:2: general.log = 'loud' is not one of its values; accepted: off, error, "
                   "warn, info, debug, trace; kept warn (default)");
    expect_message("[general]\ndisable = maybe\n",
                   "f.ini:2: general.disable = 'maybe' is not a truth value; accepted: true, yes, "
                   "on, 1, false, no, off, 0; kept false (default)");
    expect_message("[convolution]\nmeasure_repeats = few\n",
                   "f.ini:2: convolution.measure_repeats = 'few' is not a whole number; accepted: "
                   "1 to 100 runs; kept 3 (default)");
    expect_message("[convolution]\nadoption_margin =\n",
                   "f.ini:2: convolution.adoption_margin = '' is not a number; accepted: 0 to 50 "
                   "percent; kept 2 (default)");
    expect_message(
        "[convolution]\nworkspace_limit = 64q\n",
        "f.ini:2: convolution.workspace_limit = '64q' is not a size; accepted: bytes, or "
        "a number with k, m, g, t (powers of 1024) like 64MiB, or none; kept none "
        "(default)");
}

static void a_value_out_of_range_keeps_the_one_before(void **state)
{
    (void)state;
    expect_message("[convolution]\nmeasure_repeats = 101\n",
                   "f.ini:2: convolution.measure_repeats = '101' is out of range; accepted: 1 to "
                   "100 runs; kept 3 (default)");
    assert_int_equal(options.convolution_measure_repeats, 3);
    expect_message("[convolution]\nadoption_margin = -1\n",
                   "f.ini:2: convolution.adoption_margin = '-1' is out of range; accepted: 0 to 50 "
                   "percent; kept 2 (default)");
    expect_message("[convolution]\nmeasure_repeats = 99999999999999999999\n",
                   "f.ini:2: convolution.measure_repeats = '99999999999999999999' is out of range; "
                   "accepted: 1 to 100 runs; kept 3 (default)");
}

static void a_repeated_key_keeps_the_first(void **state)
{
    (void)state;
    expect_message("[general]\nlog = info\n[cache]\n[general]\nlog = trace\n",
                   "f.ini:5: general.log is already set in line 2; accepted: one line per key; "
                   "kept info (f.ini:2)");
    assert_int_equal(options.general_log, 3);
}

static void a_later_file_may_set_what_an_earlier_one_set(void **state)
{
    (void)state;
    load("[general]\nlog = info\n");
    load("[general]\nlog = trace\n");
    assert_int_equal(message_count, 0);
    assert_int_equal(options.general_log, 5);
}

static void a_broken_section_line_takes_its_keys_with_it(void **state)
{
    (void)state;
    expect_message("[general]\n[cache\nfile = x\nlog = trace\n",
                   "f.ini:2: broken section line '[cache': ']' is missing; accepted: [general] "
                   "[convolution] [cache] [memory]; its keys are ignored");
    assert_string_equal(options.cache_file, "auto");
    assert_int_equal(options.general_log, 2);
    expect_message("[cache] x\n", "f.ini:1: broken section line '[cache] x': there is text after "
                                  "']'; accepted: [general] [convolution] [cache] [memory]; its "
                                  "keys are ignored");
    expect_message("[]\n", "f.ini:1: broken section line '[]': the name is missing; accepted: "
                           "[general] [convolution] [cache] [memory]; its keys are ignored");
}

static void a_line_that_is_no_assignment_is_ignored(void **state)
{
    (void)state;
    expect_message("[general]\nlog = info\n   trace\nstats = text\n",
                   "f.ini:3: 'trace' has no '='; accepted: key = value; line ignored");
    assert_int_equal(options.general_log, 3);
    assert_int_equal(options.general_stats, 1);
    expect_message("[general]\n= info\n",
                   "f.ini:2: '= info' has no key; accepted: key = value; line ignored");
    expect_message("log = info\nstats = text\n[general]\n",
                   "f.ini:1: line before the first section; accepted: a section line such as "
                   "[general]; lines up to it are ignored");
    assert_int_equal(options.general_log, 2);
}

static void an_indented_key_is_a_key_and_not_a_continuation(void **state)
{
    (void)state;
    load("[general]\nlog_file = /x\n    stats_file = /y\n");
    assert_int_equal(message_count, 0);
    assert_string_equal(options.general_log_file, "/x");
    assert_string_equal(options.general_stats_file, "/y");
}

static void a_line_up_to_the_limit_is_read_whole_and_a_longer_one_is_rejected(void **state)
{
    (void)state;
    char text[1024], value[512];
    memset(value, 'v', sizeof value);
    const int key = (int)strlen("file = ");
    snprintf(text, sizeof text, "[cache]\nfile = %.*s ; %0600d\n", 197 - key, value, 0);
    load(text);
    assert_int_equal(message_count, 0);
    assert_int_equal(strlen(options.cache_file), 197 - key);
    snprintf(text, sizeof text, "[cache]\nfile = %.*s\n[general]\nlog = info\n", 198 - key, value);
    expect_message(text, "f.ini:2: line of 198 bytes; accepted: up to 197 without comment; line "
                         "ignored");
    assert_string_equal(options.cache_file, "auto");
    assert_int_equal(options.general_log, 3);
    snprintf(text, sizeof text, "[general]\n[%.*s]\nlog = info\n", 300, value);
    expect_message(text, "f.ini:2: line of 302 bytes; accepted: up to 197 without comment; line "
                         "ignored");
    assert_int_equal(options.general_log, 2);
    snprintf(text, sizeof text, "[general%.*s]\nlog = info\n", 60, value);
    defaults(NULL);
    load(text);
    assert_int_equal(message_count, 1);
    assert_int_equal(options.general_log, 2);
}

static void a_binary_file_gives_one_message_and_is_left(void **state)
{
    (void)state;
    static const char text[] = "[general]\nlog = info\n\x7f"
                               "ELF\0\0\0\n[general]\nstats = text\n";
    assert_int_equal(
        mdnn_options_load_text(&options, "f.ini", text, sizeof text - 1, collect, messages),
        MDNN_STATUS_BAD_FORMAT);
    assert_int_equal(message_count, 1);
    assert_string_equal(messages[0], "f.ini:3: NUL byte; accepted: text; the rest is ignored");
    assert_int_equal(options.general_stats, 0);
    expect_message("[general]\nlog = in\x01"
                   "fo\n",
                   "f.ini:2: control character; accepted: text; line ignored");
}

static void a_file_of_nonsense_gives_a_bounded_number_of_messages(void **state)
{
    (void)state;
    char text[4096] = "[general]\n";
    for (int i = 0; i < 500; i++)
        strcat(text, "xx = 1\n");
    load(text);
    assert_int_equal(message_count, MDNN_READER_MESSAGES_MAX + 1);
    assert_string_equal(messages[MDNN_READER_MESSAGES_MAX],
                        "f.ini:22: more messages are not shown");
}

static void messages_are_one_printable_line_whatever_the_name(void **state)
{
    (void)state;
    static const char text[] = "[general]\nlog = loud\n";
    mdnn_options_load_text(&options, "a\nb\x1b[2J", text, sizeof text - 1, collect, messages);
    assert_int_equal(message_count, 1);
    assert_memory_equal(messages[0], "a?b?[2J:2: ", 11);
    char name[2000];
    memset(name, 'n', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    load("[general]\nlog = info\n");
    mdnn_options_load_text(&options, name, text, sizeof text - 1, collect, messages);
    assert_memory_equal(messages[1], "...nnn", 6);
    assert_non_null(strstr(messages[1], "nnn:2: general.log"));
    assert_non_null(strstr(messages[1], "kept info (f.ini:2)"));
}

static void what_print_shows_is_read_back_to_the_same_options(void **state)
{
    (void)state;
    load("[general]\nlog = trace\nstats = json\nlog_file = /a/%p.log\n[convolution]\n"
         "workspace_limit = 1000001\nadoption_margin = 0.125\nbatch_sizes = all\n");
    snprintf(options.origin[0], MDNN_ORIGIN_BYTES, "%0310d", 0);
    assert_int_equal(message_count, 0);
    char *text = NULL;
    size_t bytes = 0;
    FILE *const out = open_memstream(&text, &bytes);
    mdnn_options_print(&options, out);
    fclose(out);
    static mdnn_options_t again;
    mdnn_options_set_defaults(&again);
    mdnn_options_load_text(&again, "again", text, bytes, collect, messages);
    assert_int_equal(message_count, 0);
    memcpy(again.origin, options.origin, sizeof again.origin);
    for (int i = 0; i < MDNN_OPTION_COUNT; i++) {
        char one[MDNN_OPTION_STRING_BYTES], other[MDNN_OPTION_STRING_BYTES];
        mdnn_options_format(&options, (mdnn_option_id_t)i, one, sizeof one);
        mdnn_options_format(&again, (mdnn_option_id_t)i, other, sizeof other);
        assert_string_equal(one, other);
    }
    assert_non_null(strstr(text, "log = trace                        ; f.ini:2\n"));
    free(text);
}

static void an_awkward_text_survives_being_printed_and_read(void **state)
{
    (void)state;
    char longest[193];
    memset(longest, 'v', sizeof longest - 1);
    longest[sizeof longest - 1] = '\0';
    const char *const values[] = {";a", "#", "a\tb", "a;b#c", "= x", "[x]", longest};
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        defaults(NULL);
        snprintf(options.cache_file, sizeof options.cache_file, "%s", values[i]);
        char *text = NULL;
        size_t bytes = 0;
        FILE *const out = open_memstream(&text, &bytes);
        mdnn_options_print(&options, out);
        fclose(out);
        defaults(NULL);
        mdnn_options_load_text(&options, "again", text, bytes, collect, messages);
        assert_int_equal(message_count, 0);
        assert_string_equal(options.cache_file, values[i]);
        free(text);
    }
}

static void a_value_that_no_file_can_hold_is_printed_as_a_comment(void **state)
{
    (void)state;
    static const char *const values[] = {"a ; b", "a #b", " a", "a ", "a\nb"};
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        snprintf(options.cache_file, sizeof options.cache_file, "%s", values[i]);
        char *text = NULL;
        size_t bytes = 0;
        FILE *const out = open_memstream(&text, &bytes);
        mdnn_options_print(&options, out);
        fclose(out);
        assert_non_null(strstr(text, "\n; file = "));
        mdnn_options_load_text(&options, "again", text, bytes, collect, messages);
        assert_int_equal(message_count, 0);
        assert_string_equal(options.cache_file, values[i]);
        free(text);
    }
}

/* Files and environment: a directory of their own, and no variable of ours from outside. */

static char directory[] = "/tmp/mdnn-options.XXXXXX";

static void write_file(const char *name, const char *text)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    FILE *const file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static void load_all(void)
{
    char system_path[512];
    snprintf(system_path, sizeof system_path, "%s/etc.ini", directory);
    message_count = 0;
    mdnn_options_load_from(&options, system_path, collect, messages);
}

static int fresh_environment(void **state)
{
    char command[600];
    snprintf(command, sizeof command,
             "rm -rf %s/* && mkdir -p %s/xdg/microdnn %s/home/.config/microdnn", directory,
             directory, directory);
    if (system(command) != 0)
        return -1;
    for (char **entry = environ; *entry != NULL;) {
        char name[256];
        snprintf(name, sizeof name, "%.*s", (int)strcspn(*entry, "="), *entry);
        if (strncmp(name, "MICRODNN_", 9) == 0)
            unsetenv(name);
        else
            entry++;
    }
    char path[512];
    snprintf(path, sizeof path, "%s/xdg", directory);
    setenv("XDG_CONFIG_HOME", path, 1);
    snprintf(path, sizeof path, "%s/home", directory);
    setenv("HOME", path, 1);
    return defaults(state);
}

static void the_last_source_that_names_an_option_wins(void **state)
{
    (void)state;
    char named[512];
    load_all();
    assert_int_equal(message_count, 0);
    assert_int_equal(options.convolution_measure_repeats, 3);
    write_file("etc.ini", "[convolution]\nmeasure_repeats = 11\n[cache]\nfile = etc\n");
    load_all();
    assert_int_equal(options.convolution_measure_repeats, 11);
    write_file("xdg/microdnn/microdnn.ini", "[convolution]\nmeasure_repeats = 12\n");
    load_all();
    assert_int_equal(options.convolution_measure_repeats, 12);
    assert_string_equal(options.cache_file, "etc");
    write_file("named.ini", "\n[convolution]\nmeasure_repeats = 13\nbatch_sizes = all\n");
    snprintf(named, sizeof named, "%s/named.ini", directory);
    setenv("MICRODNN_CONFIG", named, 1);
    load_all();
    assert_int_equal(options.convolution_measure_repeats, 13);
    char origin[600];
    snprintf(origin, sizeof origin, "%s:3", named);
    assert_string_equal(options.origin[MDNN_OPTION_convolution_measure_repeats], origin);
    setenv("MICRODNN_CONVOLUTION_MEASURE_REPEATS", "14", 1);
    setenv("MICRODNN_BATCH_SIZES", "undivided", 1);
    load_all();
    assert_int_equal(options.convolution_measure_repeats, 14);
    assert_int_equal(options.convolution_batch_sizes, 0);
    assert_string_equal(options.origin[MDNN_OPTION_convolution_measure_repeats],
                        "environment MICRODNN_CONVOLUTION_MEASURE_REPEATS");
    assert_string_equal(options.origin[MDNN_OPTION_convolution_batch_sizes],
                        "environment MICRODNN_BATCH_SIZES");
    assert_int_equal(message_count, 0);
}

static void without_an_absolute_xdg_directory_the_home_directory_counts(void **state)
{
    (void)state;
    write_file("home/.config/microdnn/microdnn.ini", "[general]\nlog = info\n");
    load_all();
    assert_int_equal(options.general_log, 2);
    setenv("XDG_CONFIG_HOME", "relative", 1);
    load_all();
    assert_int_equal(options.general_log, 3);
    unsetenv("XDG_CONFIG_HOME");
    load_all();
    assert_int_equal(options.general_log, 3);
    unsetenv("HOME");
    load_all();
    assert_int_equal(options.general_log, 2);
}

static void every_option_has_an_environment_name(void **state)
{
    (void)state;
    for (int i = 0; i < MDNN_OPTION_COUNT; i++) {
        char name[MDNN_ENVIRONMENT_NAME_BYTES], value[MDNN_OPTION_STRING_BYTES], expected[128];
        mdnn_options_set_defaults(&options);
        mdnn_options_format(&options, (mdnn_option_id_t)i, value, sizeof value);
        mdnn_option_environment_name((mdnn_option_id_t)i, name, sizeof name);
        setenv(name, value, 1);
        load_all();
        snprintf(expected, sizeof expected, "environment %s", name);
        assert_string_equal(options.origin[i], expected);
        assert_int_equal(message_count, 0);
    }
}

static void the_full_name_wins_over_the_short_one(void **state)
{
    (void)state;
    setenv("MICRODNN_LOG", "info", 1);
    setenv("MICRODNN_GENERAL_LOG", "debug", 1);
    load_all();
    assert_int_equal(options.general_log, 4);
    setenv("MICRODNN_GENERAL_LOG", "", 1);
    load_all();
    assert_int_equal(options.general_log, 3);
    assert_int_equal(message_count, 0);
}

/* Of the options of `microdnn run`, each by its name there. */
static void short_names_are_those_of_run(void **state)
{
    (void)state;
    setenv("MICRODNN_MEMORY", "12%", 1);
    setenv("MICRODNN_POLICY", "wd", 1);
    setenv("MICRODNN_MEMORY_POLICY", "conv", 1);
    setenv("MICRODNN_ALLOCATOR", "native", 1);
    setenv("MICRODNN_LIBRARY", "/x.so", 1);
    load_all();
    assert_int_equal(message_count, 0);
    assert_int_equal(mdnn_size_on_device(options.memory_budget, 100), 12);
    assert_int_equal(options.convolution_policy, MDNN_CONVOLUTION_WD);
    assert_int_equal(options.memory_policy, MDNN_POLICY_CONV);
    setenv("MICRODNN_MEMORY_BUDGET", "3m", 1);
    load_all();
    assert_int_equal(options.memory_budget, 3 << 20);
}

static void an_empty_variable_is_a_value_only_for_a_text(void **state)
{
    (void)state;
    write_file("etc.ini", "[cache]\nfile = /x\n[general]\ndisable = on\n");
    setenv("MICRODNN_DISABLE", "", 1);
    setenv("MICRODNN_CACHE_FILE", "", 1);
    load_all();
    assert_int_equal(message_count, 0);
    assert_true(options.general_disable);
    assert_string_equal(options.cache_file, "");
}

static void a_bad_variable_is_named_and_the_value_so_far_kept(void **state)
{
    (void)state;
    setenv("MICRODNN_WORKSPACE_LIMIT", "1.5", 1);
    setenv("MICRODNN_CONVOLUTION_ADOPTION_MARGIN", "51", 1);
    load_all();
    assert_int_equal(message_count, 2);
    assert_string_equal(messages[0],
                        "environment MICRODNN_WORKSPACE_LIMIT: convolution.workspace_limit = '1.5' "
                        "is not a size; accepted: bytes, or a number with k, m, g, t (powers of "
                        "1024) like 64MiB, or none; kept none (default)");
    assert_string_equal(messages[1],
                        "environment MICRODNN_CONVOLUTION_ADOPTION_MARGIN: "
                        "convolution.adoption_margin = '51' is out of range; accepted: 0 to 50 "
                        "percent; kept 2 (default)");
}

static void an_unknown_variable_gives_one_warning(void **state)
{
    (void)state;
    setenv("MICRODNN_TRACE", "1", 1);
    setenv("MICRODNN_SIM_PROFILE", "k40", 1);
    load_all();
    assert_int_equal(message_count, 0);
    setenv("MICRODNN_WORKSPACE_LIMITS", "1", 1);
    load_all();
    assert_int_equal(message_count, 1);
    assert_string_equal(messages[0],
                        "environment MICRODNN_WORKSPACE_LIMITS: unknown variable, did you mean "
                        "MICRODNN_WORKSPACE_LIMIT?; accepted: MICRODNN_<SECTION>_<KEY> as "
                        "`microdnn config --markdown` lists them; ignored");
    unsetenv("MICRODNN_WORKSPACE_LIMITS");
    setenv("MICRODNN_SOMETHING_ELSE", "1", 1);
    load_all();
    assert_int_equal(message_count, 1);
    assert_null(strstr(messages[0], "did you mean"));
    setenv("MICRODNN_log", "1", 1);
    load_all();
    assert_int_equal(message_count, 2);
}

static void a_text_that_does_not_fit_is_out_of_range(void **state)
{
    (void)state;
    char value[MDNN_OPTION_STRING_BYTES + 1];
    memset(value, 'a', sizeof value - 1);
    value[MDNN_OPTION_STRING_BYTES] = '\0';
    setenv("MICRODNN_CACHE_FILE", value, 1);
    load_all();
    assert_int_equal(message_count, 1);
    assert_string_equal(options.cache_file, "auto");
    assert_non_null(strstr(messages[0], "aaa...' is out of range; accepted: text of up to 1023 "
                                        "bytes; kept auto (default)"));
    value[MDNN_OPTION_STRING_BYTES - 1] = '\0';
    setenv("MICRODNN_CACHE_FILE", value, 1);
    load_all();
    assert_int_equal(message_count, 0);
    assert_string_equal(options.cache_file, value);
}

static void a_missing_file_is_a_message_only_if_it_was_named(void **state)
{
    (void)state;
    setenv("MICRODNN_CONFIG", "/nonexistent/x.ini", 1);
    load_all();
    assert_int_equal(message_count, 1);
    assert_string_equal(messages[0],
                        "environment MICRODNN_CONFIG: there is no file /nonexistent/x.ini; "
                        "accepted: the path of an INI file; ignored");
    setenv("MICRODNN_CONFIG", "/dev/null", 1);
    load_all();
    assert_int_equal(message_count, 0);
}

static void what_is_no_regular_file_is_said_and_never_waited_for(void **state)
{
    (void)state;
    char path[512], expected[700];
    assert_int_equal(mdnn_options_load_file(&options, directory, collect, messages),
                     MDNN_STATUS_IO);
    snprintf(expected, sizeof expected,
             "%s: cannot be read: it is a directory; accepted: a text file of up to 1 MiB; ignored",
             directory);
    assert_string_equal(messages[0], expected);
    snprintf(path, sizeof path, "%s/fifo", directory);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_int_equal(mdnn_options_load_file(&options, path, collect, messages), MDNN_STATUS_IO);
    assert_int_equal(mdnn_options_load_file(&options, "/dev/zero", collect, messages),
                     MDNN_STATUS_IO);
    assert_int_equal(message_count, 3);
    write_file("large", "");
    snprintf(path, sizeof path, "%s/large", directory);
    assert_int_equal(truncate(path, (1 << 20) + 1), 0);
    assert_int_equal(mdnn_options_load_file(&options, path, collect, messages), MDNN_STATUS_IO);
    assert_int_equal(mdnn_options_load_file(&options, "/nonexistent", collect, messages),
                     MDNN_STATUS_NOT_FOUND);
    assert_int_equal(message_count, 4);
}

static void loading_without_a_reporter_is_silent(void **state)
{
    (void)state;
    assert_int_equal(
        mdnn_options_load_text(&options, "f", "[x]\n[general]\nlog=1\nlog=info", 28, NULL, NULL),
        MDNN_STATUS_OK);
    assert_int_equal(options.general_log, 3);
}

static void no_file_of_the_fuzzers_corpus_breaks_the_reader(void **state)
{
    (void)state;
    static const char corpus[] = "test/fuzz/corpus/options";
    DIR *const files = opendir(corpus);
    if (files == NULL)
        skip();
    int seen = 0;
    for (const struct dirent *entry; (entry = readdir(files)) != NULL;) {
        char path[600];
        if (entry->d_name[0] == '.')
            continue;
        snprintf(path, sizeof path, "%s/%s", corpus, entry->d_name);
        const mdnn_status_t status = mdnn_options_load_file(&options, path, collect, messages);
        assert_true(status == MDNN_STATUS_OK || status == MDNN_STATUS_BAD_FORMAT);
        seen++;
    }
    closedir(files);
    assert_true(seen > 5);
}

#define PLAIN(test) cmocka_unit_test_setup(test, defaults)
#define SOURCES(test) cmocka_unit_test_setup(test, fresh_environment)

int main(void)
{
    if (mkdtemp(directory) == NULL)
        return 1;
    const struct CMUnitTest tests[] = {
        PLAIN(sizes_take_bytes_and_units_and_nothing_else),
        PLAIN(a_formatted_size_is_read_back_exactly),
        PLAIN(a_share_is_a_percentage_of_the_device),
        PLAIN(sizes_for_people_have_three_digits),
        PLAIN(integers_and_decimals_know_their_limits),
        PLAIN(decimals_are_written_without_help_of_the_locale),
        PLAIN(defaults_are_those_of_the_list),
        PLAIN(every_section_of_the_list_is_known),
        PLAIN(a_good_file_sets_values_and_origins_without_a_word),
        PLAIN(a_budget_that_is_lost_is_remembered),
        PLAIN(a_budget_may_be_a_share_and_other_sizes_may_not),
        PLAIN(truth_values_have_four_words_each),
        PLAIN(an_unknown_section_is_named_and_its_keys_are_ignored),
        PLAIN(an_unknown_key_is_named_with_the_nearest_one),
        PLAIN(a_bad_value_is_shown_with_what_is_accepted_and_what_is_kept),
        PLAIN(a_value_out_of_range_keeps_the_one_before),
        PLAIN(a_repeated_key_keeps_the_first),
        PLAIN(a_later_file_may_set_what_an_earlier_one_set),
        PLAIN(a_broken_section_line_takes_its_keys_with_it),
        PLAIN(a_line_that_is_no_assignment_is_ignored),
        PLAIN(an_indented_key_is_a_key_and_not_a_continuation),
        PLAIN(a_line_up_to_the_limit_is_read_whole_and_a_longer_one_is_rejected),
        PLAIN(a_binary_file_gives_one_message_and_is_left),
        PLAIN(a_file_of_nonsense_gives_a_bounded_number_of_messages),
        PLAIN(messages_are_one_printable_line_whatever_the_name),
        PLAIN(what_print_shows_is_read_back_to_the_same_options),
        PLAIN(an_awkward_text_survives_being_printed_and_read),
        PLAIN(a_value_that_no_file_can_hold_is_printed_as_a_comment),
        SOURCES(the_last_source_that_names_an_option_wins),
        SOURCES(without_an_absolute_xdg_directory_the_home_directory_counts),
        SOURCES(every_option_has_an_environment_name),
        SOURCES(the_full_name_wins_over_the_short_one),
        SOURCES(short_names_are_those_of_run),
        SOURCES(an_empty_variable_is_a_value_only_for_a_text),
        SOURCES(a_bad_variable_is_named_and_the_value_so_far_kept),
        SOURCES(an_unknown_variable_gives_one_warning),
        SOURCES(a_text_that_does_not_fit_is_out_of_range),
        SOURCES(a_missing_file_is_a_message_only_if_it_was_named),
        SOURCES(what_is_no_regular_file_is_said_and_never_waited_for),
        PLAIN(loading_without_a_reporter_is_silent),
        PLAIN(no_file_of_the_fuzzers_corpus_breaks_the_reader),
    };
    const int failed = cmocka_run_group_tests_name("options", tests, NULL, NULL);
    char command[300];
    snprintf(command, sizeof command, "rm -rf %s", directory);
    return system(command) == 0 ? failed : 1;
}
