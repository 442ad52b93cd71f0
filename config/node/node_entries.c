/* Who a process is, whether it lives, and how an entry changes hands. */
#include "config/node/node_registry_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "config/safe_path.h"

enum { PID_BITS = 22, START_BITS = 32, STACK_BITS = 10, STAT_BYTES = 2048 };

typedef struct process_facts {
    char state;
    long threads;
    unsigned long long start; /* clock ticks since the machine started */
    unsigned long stack;      /* where its stack began, which exec chooses anew; 0: not told */
} process_facts_t;

/* /proc/PID/stat (proc(5)); the name in parentheses may hold anything. */
static bool read_facts(pid_t pid, process_facts_t *facts)
{
    char path[64], text[STAT_BYTES];
    snprintf(path, sizeof path, "/proc/%ld/stat", (long)pid);
    const int descriptor = mdnn_above_standard(open(path, O_RDONLY | O_CLOEXEC));
    const ssize_t bytes = descriptor >= 0 ? read(descriptor, text, sizeof text - 1) : -1;
    if (descriptor >= 0)
        close(descriptor);
    if (bytes <= 0)
        return false;
    text[bytes] = '\0';
    const char *const after_name = strrchr(text, ')');
    return after_name &&
           sscanf(after_name + 1,
                  " %c %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %ld %*s "
                  "%llu %*s %*s %*s %*s %*s %lu",
                  &facts->state, &facts->threads, &facts->start, &facts->stack) == 4;
}

static uint64_t bits(uint64_t value, int count)
{
    return value & ((UINT64_C(1) << count) - 1);
}

/* Pages, multiplied so that all their bits count. */
static uint64_t stack_bits(unsigned long stack)
{
    return stack == 0 ? 0 : 1 + (stack / 16 * UINT64_C(0x9e3779b97f4a7c15) >> 32) % 1023;
}

static uint64_t identity_of(pid_t pid, const process_facts_t *facts)
{
    return bits((uint64_t)pid, PID_BITS) | bits(facts->start, START_BITS) << PID_BITS |
           stack_bits(facts->stack) << (PID_BITS + START_BITS);
}

uint64_t mdnn_node_own_process(void)
{
    process_facts_t facts;
    return read_facts(getpid(), &facts) ? identity_of(getpid(), &facts) : 0;
}

/* If the system does not report where a stack began, the start time of the process must suffice. A
 * leader that ended before its threads is not dead. */
bool mdnn_node_is_alive(uint64_t process)
{
    const pid_t pid = (pid_t)bits(process, PID_BITS);
    const uint64_t without_stack = bits(process, PID_BITS + START_BITS);
    process_facts_t facts;
    if (pid <= 0)
        return false;
    if (!read_facts(pid, &facts)) /* without /proc only the number is known */
        return access("/proc/self/stat", F_OK) != 0 && (kill(pid, 0) == 0 || errno == EPERM);
    if ((facts.state == 'Z' || facts.state == 'X') && facts.threads <= 1)
        return false;
    const uint64_t now = identity_of(pid, &facts);
    if (bits(now, PID_BITS + START_BITS) != without_stack)
        return false;
    return facts.stack == 0 || process == without_stack || process == now;
}

bool mdnn_node_claim(mdnn_node_registry_t *registry, registry_entry_t *entry, uint64_t before)
{
    if (!atomic_compare_exchange_strong(&entry->process, &before, registry->process))
        return false;
    atomic_store(&entry->claimed, 0);
    atomic_store(&entry->pinned_bytes, 0);
    for (size_t i = 0; i < WORDS; i++)
        atomic_store(&entry->words[i], 0);
    for (size_t i = 0; i < MDNN_NODE_LIMITS; i++)
        atomic_store(&entry->scopes[i],
                     i < registry->limits.count ? registry->limits.limits[i].scope : 0);
    return true;
}
