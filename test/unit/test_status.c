#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "config/status.h"
#include "test/unit/cases.h"

CASE(every_status_has_its_own_number_and_text)
{
    static const struct {
        mdnn_status_t status;
        const char *text;
    } all[] = {
#define STATUS(name, number, text) {MDNN_STATUS_##name, text},
#include "config/status.def"
#undef STATUS
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        assert_string_equal(mdnn_status_string(all[i].status), all[i].text);
        for (size_t j = 0; j < i; j++) {
            assert_int_not_equal(all[i].status, all[j].status);
            assert_string_not_equal(all[i].text, all[j].text);
        }
    }
}

CASE(an_unlisted_number_is_an_unknown_status)
{
    assert_string_equal(mdnn_status_string((mdnn_status_t)9999), "unknown status");
    assert_string_equal(mdnn_status_string((mdnn_status_t)-1), "unknown status");
}

static mdnn_status_t returning(mdnn_status_t inner, int *after)
{
    MDNN_TRY(inner);
    *after = 1;
    return MDNN_STATUS_OK;
}

static mdnn_status_t leaving(mdnn_status_t inner, int *after, int *cleaned)
{
    mdnn_status_t status = MDNN_STATUS_OK;
    MDNN_TRY_GOTO(inner, status, out);
    *after = 1;
out:
    *cleaned = 1;
    return status;
}

CASE(try_returns_the_first_failure_and_only_a_failure)
{
    int after = 0;
    assert_int_equal(returning(MDNN_STATUS_IO, &after), MDNN_STATUS_IO);
    assert_int_equal(after, 0);
    assert_int_equal(returning(MDNN_STATUS_OK, &after), MDNN_STATUS_OK);
    assert_int_equal(after, 1);
}

CASE(try_goto_reaches_the_cleanup_with_the_status)
{
    int after = 0, cleaned = 0;
    assert_int_equal(leaving(MDNN_STATUS_BUSY, &after, &cleaned), MDNN_STATUS_BUSY);
    assert_int_equal(after, 0);
    assert_int_equal(cleaned, 1);
}

int main(void)
{
    return run_cases("status");
}
