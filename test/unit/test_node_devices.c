/* What ranks know of each other's devices: facts, order, who moves, and that nothing of a killed rank stays. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "config/node/node_registry_internal.h"
#include "test/unit/random.h"

enum { RANKS = 4, KILLS = 200, DEVICE = 1000 };
static const mdnn_node_rates_t alone = {12000, 11000};

static char folder[64];
static mdnn_node_registry_t *registry;
static _Atomic int *ready; /* seen by all processes of a test */

static int begin(void **state)
{
    (void)state;
    strcpy(folder, "/tmp/mdnn-devices.XXXXXX");
    registry = NULL;
    ready = mmap(NULL, sizeof *ready, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return ready == MAP_FAILED || !mkdtemp(folder);
}

static int end(void **state)
{
    char command[128];
    (void)state;
    mdnn_node_registry_close(registry);
    munmap(ready, sizeof *ready);
    snprintf(command, sizeof command, "rm -rf %s", folder);
    return system(command);
}

static void open_registry(void)
{
    const mdnn_node_limits_t limits = {.count = 1, .limits = {{0, UINT64_MAX / 2}}};
    if (mdnn_node_registry_open(folder, &limits, &registry) != MDNN_STATUS_OK)
        abort();
}

static mdnn_node_device_t *join(uint64_t device)
{
    mdnn_node_device_t *joined = NULL;
    if (mdnn_node_device_join(registry, device, 7, alone, &joined) != MDNN_STATUS_OK)
        abort();
    return joined;
}

static pid_t start(void (*work)(int), int argument)
{
    const pid_t child = fork();
    if (child == 0) {
        registry = NULL;
        open_registry();
        work(argument);
        _exit(0);
    }
    assert_true(child > 0);
    return child;
}

static void await_ready(int count)
{
    while (atomic_load(ready) < count)
        usleep(1000);
}

static void kill_and_wait(pid_t child)
{
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(waitpid(child, NULL, 0), child);
}

/* Entries that somebody has, dead or alive. */
static size_t used_entries(void)
{
    size_t used = 0;
    for (size_t i = 0; i < NODE_ENTRIES; i++)
        used += atomic_load(&registry->map->entries[i].process) != 0;
    return used;
}

static void a_device_shows_what_it_says(void **state)
{
    mdnn_node_peer_t peers[2];
    (void)state;
    open_registry();
    mdnn_node_device_t *const device = join(DEVICE);
    mdnn_node_device_moves(device, true, false);
    mdnn_node_device_together(device, (mdnn_node_rates_t){6000, 5000});
    mdnn_node_device_works(device, 99);
    assert_int_equal(mdnn_node_device_list(device, peers, 2), 1);
    assert_int_equal(peers[0].device, DEVICE);
    assert_int_equal(peers[0].place, 7);
    assert_int_equal(peers[0].alone.out, 12000);
    assert_int_equal(peers[0].alone.in, 11000);
    assert_int_equal(peers[0].together.out, 6000);
    assert_int_equal(peers[0].together.in, 5000);
    assert_int_equal(peers[0].work, 99);
    assert_true(peers[0].is_own && peers[0].moves_out && !peers[0].moves_in);
    mdnn_node_device_moves(device, false, true);
    assert_int_equal(mdnn_node_device_list(device, peers, 2), 1);
    assert_true(!peers[0].moves_out && peers[0].moves_in);
}

static void devices_are_in_the_order_in_which_they_joined(void **state)
{
    mdnn_node_device_t *devices[RANKS];
    mdnn_node_peer_t peers[RANKS];
    (void)state;
    open_registry();
    for (int i = 0; i < RANKS; i++)
        devices[i] = join((uint64_t)(DEVICE - i));
    assert_int_equal(mdnn_node_device_list(devices[2], peers, RANKS), RANKS);
    for (int i = 0; i < RANKS; i++) {
        assert_int_equal(peers[i].device, DEVICE - i);
        assert_int_equal(peers[i].is_own, i == 2);
    }
    /* Another one takes the place in the file that becomes free, and is the last all the same. */
    mdnn_node_device_leave(devices[0]);
    mdnn_node_device_t *const last = join(DEVICE + 1);
    assert_int_equal(mdnn_node_device_list(last, peers, RANKS), RANKS);
    assert_int_equal(peers[0].device, DEVICE - 1);
    assert_int_equal(peers[RANKS - 1].device, DEVICE + 1);
    /* The first ones are listed where there is no room for all. */
    assert_int_equal(mdnn_node_device_list(last, peers, 1), RANKS);
    assert_int_equal(peers[0].device, DEVICE - 1);
}

static void use_one_for_ever(int number)
{
    mdnn_node_device_t *const device = join((uint64_t)(DEVICE + number));
    mdnn_node_device_moves(device, true, true);
    atomic_fetch_add(ready, 1);
    for (;;)
        pause();
}

static void a_killed_rank_is_not_listed_and_the_next_start_frees_its_entries(void **state)
{
    mdnn_node_peer_t peers[RANKS + 1];
    pid_t children[RANKS];
    (void)state;
    for (int i = 0; i < RANKS; i++)
        children[i] = start(use_one_for_ever, i);
    await_ready(RANKS);
    open_registry();
    mdnn_node_device_t *const device = join(1);
    assert_int_equal(mdnn_node_device_list(device, peers, RANKS + 1), RANKS + 1);
    kill_and_wait(children[1]);
    assert_int_equal(mdnn_node_device_list(device, peers, RANKS + 1), RANKS);
    for (size_t i = 0; i < RANKS; i++)
        assert_int_not_equal(peers[i].device, DEVICE + 1);
    assert_int_equal(used_entries(), 2 * RANKS + 2); /* each process, each device */
    for (int i = 0; i < RANKS; i++)
        if (i != 1)
            kill_and_wait(children[i]);
    mdnn_node_registry_close(registry);
    open_registry();
    assert_int_equal(used_entries(), 1);
}

/* All that a rank does with the registry, without end. */
static void do_everything(int number)
{
    mdnn_node_peer_t peers[RANKS];
    uint64_t seed = (uint64_t)number;
    atomic_fetch_add(ready, 1);
    for (;;) {
        mdnn_node_device_t *const device = join(DEVICE);
        for (uint64_t i = random_next(&seed) % 4; i > 0; i--) {
            mdnn_node_device_moves(device, i & 1, i & 2);
            mdnn_node_device_works(device, i);
            if (mdnn_node_registry_take(registry, 4096))
                mdnn_node_registry_give(registry, 4096);
            (void)mdnn_node_device_list(device, peers, RANKS);
        }
        mdnn_node_device_leave(device);
    }
}

static void ranks_are_killed_at_random_moments(void **state)
{
    uint64_t seed = 1;
    const int kills = getenv("MDNN_THOROUGH") ? KILLS : KILLS / 10;
    (void)state;
    for (int i = 0; i < kills; i++) {
        mdnn_node_peer_t peers[RANKS];
        atomic_store(ready, 0);
        const pid_t first = start(do_everything, 2 * i), other = start(do_everything, 2 * i + 1);
        await_ready(2);
        usleep((useconds_t)(random_next(&seed) % 3000));
        kill_and_wait(first);
        open_registry(); /* the next start, beside one that lives */
        mdnn_node_device_t *const device = join(DEVICE + 2);
        assert_true(mdnn_node_device_list(device, peers, RANKS) <= 2);
        assert_true(mdnn_node_registry_take(registry, 4096));
        kill_and_wait(other);
        mdnn_node_registry_close(registry);
        open_registry();
        assert_int_equal(used_entries(), 1);
        assert_int_equal(mdnn_node_registry_bytes(registry, 0), 0);
        mdnn_node_registry_close(registry);
        registry = NULL;
    }
}

static void devices_follow_the_registry_to_a_new_file(void **state)
{
    char command[128];
    mdnn_node_peer_t peers[RANKS];
    (void)state;
    open_registry();
    mdnn_node_device_t *const device = join(DEVICE);
    mdnn_node_device_works(device, 5);
    snprintf(command, sizeof command, "rm -f %s/*", folder);
    assert_int_equal(system(command), 0);
    assert_true(mdnn_node_registry_take(registry, 1));
    assert_int_equal(used_entries(), 2);
    assert_int_equal(mdnn_node_device_list(device, peers, RANKS), 1);
    assert_int_equal(peers[0].work, 5);
}

static void a_forked_child_changes_nothing(void **state)
{
    mdnn_node_peer_t peers[RANKS];
    (void)state;
    open_registry();
    mdnn_node_device_t *const device = join(DEVICE), *more;
    const pid_t child = fork();
    if (child == 0) {
        mdnn_node_device_moves(device, true, true);
        if (mdnn_node_device_join(registry, 1, 1, alone, &more) != MDNN_STATUS_OUT_OF_MEMORY)
            _exit(1);
        mdnn_node_device_leave(device);
        _exit(0);
    }
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_int_equal(mdnn_node_device_list(device, peers, RANKS), 1);
    assert_false(peers[0].moves_out || peers[0].moves_in);
}

static void a_full_registry_refuses(void **state)
{
    mdnn_node_device_t *device;
    (void)state;
    open_registry();
    for (int i = 0; i < NODE_ENTRIES - 1; i++)
        (void)join((uint64_t)(i + 1));
    assert_int_equal(mdnn_node_device_join(registry, 1, 1, alone, &device),
                     MDNN_STATUS_OUT_OF_MEMORY);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_device_shows_what_it_says, begin, end),
        cmocka_unit_test_setup_teardown(devices_are_in_the_order_in_which_they_joined, begin, end),
        cmocka_unit_test_setup_teardown(
            a_killed_rank_is_not_listed_and_the_next_start_frees_its_entries, begin, end),
        cmocka_unit_test_setup_teardown(ranks_are_killed_at_random_moments, begin, end),
        cmocka_unit_test_setup_teardown(devices_follow_the_registry_to_a_new_file, begin, end),
        cmocka_unit_test_setup_teardown(a_forked_child_changes_nothing, begin, end),
        cmocka_unit_test_setup_teardown(a_full_registry_refuses, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
