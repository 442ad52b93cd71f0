/* Threads of the library's own leave signals to the program's. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "config/own_thread.h"

static void *note_mask(void *mask)
{
    (void)pthread_sigmask(SIG_SETMASK, NULL, mask);
    return mask;
}

static void a_thread_takes_no_signals(void **state)
{
    sigset_t before, after, inside;
    pthread_t thread;
    (void)state;
    (void)pthread_sigmask(SIG_SETMASK, NULL, &before);
    assert_true(mdnn_thread_start(&thread, "microdnn-test", note_mask, &inside));
    assert_int_equal(pthread_join(thread, NULL), 0);
    (void)pthread_sigmask(SIG_SETMASK, NULL, &after);
    assert_true(sigismember(&inside, SIGINT) && sigismember(&inside, SIGPROF));
    assert_false(sigismember(&before, SIGINT));
    assert_int_equal(sigismember(&after, SIGINT), sigismember(&before, SIGINT));
}

static void *wait_for_word(void *word)
{
    while (!__atomic_load_n((int *)word, __ATOMIC_ACQUIRE))
        ;
    return NULL;
}

static void a_thread_has_a_name(void **state)
{
    char name[16];
    int word = 0;
    pthread_t thread;
    (void)state;
    assert_true(mdnn_thread_start(&thread, "microdnn-test", wait_for_word, &word));
    assert_int_equal(pthread_getname_np(thread, name, sizeof name), 0);
    assert_string_equal(name, "microdnn-test");
    __atomic_store_n(&word, 1, __ATOMIC_RELEASE);
    assert_int_equal(pthread_join(thread, NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_thread_takes_no_signals),
                                       cmocka_unit_test(a_thread_has_a_name)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
