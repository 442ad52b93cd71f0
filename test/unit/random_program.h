/* Random programs that repeat themselves, as events: operations, and ranges that begin and end.
 * With deviations of the kinds that training shows. One program includes it once. */
#ifndef MDNN_TEST_RANDOM_PROGRAM_H
#define MDNN_TEST_RANDOM_PROGRAM_H

#include <assert.h>
#include <stdbool.h>
#include <string.h>

#include "offload/plan/period.h"
#include "test/unit/random.h"

enum { MOST_STEPS = 48, MOST_SLOTS = 24, MOST_USES = 6, MOST_EVENTS = 40000, MOST_IDS = 20000 };
/* Programs that are not filled at random may have more. */
enum { ROOM_SLOTS = 64, ROOM_USES = 16 };

static uint64_t random_state;

static inline uint64_t below(uint64_t end)
{
    return random_next(&random_state) % end;
}

/* ---- a program: one round of it ---- */

typedef struct slot {
    uint64_t bytes;
    uint32_t birth, death; /* steps; death < birth: in the next round; both MOST_STEPS: always */
    uint32_t ahead;        /* allocated so many steps before its birth, where it is used first */
} slot_t;

typedef struct step {
    uint64_t key;
    uint32_t use_count, slots[ROOM_USES];
    mdnn_use_role_t roles[ROOM_USES];
} step_t;

typedef struct program {
    uint32_t step_count, slot_count;
    slot_t slots[ROOM_SLOTS];
    step_t steps[MOST_STEPS];
} program_t;

static inline bool slot_lives(const slot_t *slot, uint32_t step)
{
    if (slot->birth == MOST_STEPS)
        return true;
    if (slot->birth <= slot->death)
        return step >= slot->birth && step <= slot->death;
    return step >= slot->birth || step <= slot->death;
}

/* Few keys and sizes, and a stretch that repeats itself, so that much looks alike. The first step
 * is like no other: otherwise the round might be a shorter one several times. */
static inline void fill_program(program_t *program, uint64_t first_key)
{
    program->step_count = 9 + (uint32_t)below(MOST_STEPS - 9);
    program->slot_count = 1 + (uint32_t)below(MOST_SLOTS - 1);
    for (uint32_t s = 0; s < program->slot_count; s++) {
        slot_t *const slot = &program->slots[s];
        slot->bytes = 1 + below(3);
        slot->ahead = 0;
        slot->birth = slot->death = MOST_STEPS;
        if (below(3) == 0)
            continue;
        slot->birth = (uint32_t)below(program->step_count);
        slot->death = (uint32_t)below(program->step_count);
        if (slot->birth > slot->death && below(3)) {
            const uint32_t swap = slot->birth;
            slot->birth = slot->death;
            slot->death = swap;
        }
    }
    const uint32_t loop = 1 + (uint32_t)below(5), from = (uint32_t)below(program->step_count);
    for (uint32_t i = 0; i < program->step_count; i++) {
        step_t *const step = &program->steps[i];
        *step = (step_t){.key = i == 0 ? first_key : 1 + below(3)};
        if (i > from && i >= loop + 1)
            step->key = program->steps[i - loop].key;
        for (uint32_t s = 0; s < program->slot_count && step->use_count < MOST_USES; s++) {
            const bool born = program->slots[s].birth == i;
            if (!born && (!slot_lives(&program->slots[s], i) || below(4)))
                continue;
            step->roles[step->use_count] = (mdnn_use_role_t)below(3);
            step->slots[step->use_count++] = s;
        }
    }
    /* A birth that found no room for its use would be one that nobody sees. */
    for (uint32_t s = 0; s < program->slot_count; s++) {
        slot_t *const slot = &program->slots[s];
        bool seen = slot->birth == MOST_STEPS;
        for (uint32_t u = 0; !seen && u < program->steps[slot->birth].use_count; u++)
            seen = program->steps[slot->birth].slots[u] == s;
        for (uint32_t i = 0; !seen && i < program->step_count; i++)
            for (uint32_t u = 0; u < program->steps[i].use_count; u++)
                if (program->steps[i].slots[u] == s)
                    program->steps[i].slots[u--] =
                        program->steps[i].slots[--program->steps[i].use_count];
    }
}

/* ---- what happens: events of many rounds ---- */

typedef struct event {
    enum { BEGIN, END, OPERATION } kind;
    uint32_t id; /* BEGIN, END */
    uint64_t bytes, key;
    uint32_t use_count, ids[ROOM_USES];
    mdnn_use_role_t roles[ROOM_USES];
    bool regular; /* whether all predictions must be right here */
} event_t;

static event_t events[MOST_EVENTS];
static uint32_t event_count, id_count;
static uint32_t living[ROOM_SLOTS];
static bool slot_is_there[ROOM_SLOTS], slot_is_ahead[ROOM_SLOTS];

static inline event_t *add_event(event_t event)
{
    assert(event_count < MOST_EVENTS);
    events[event_count] = event;
    return &events[event_count++];
}

static inline void begin_slot(uint32_t s, uint64_t bytes)
{
    assert(id_count < MOST_IDS);
    living[s] = id_count++;
    slot_is_there[s] = true;
    add_event((event_t){.kind = BEGIN, .id = living[s], .bytes = bytes});
}

static inline void end_slot(uint32_t s)
{
    add_event((event_t){.kind = END, .id = living[s]});
    slot_is_there[s] = false;
}

/* One in so many steps (0: none) exchanges a range for another of its size, which no operation
 * shows.
 */
static uint64_t exchange_one_in;

static inline void exchange_slot(const program_t *program)
{
    const uint32_t s = (uint32_t)below(program->slot_count);
    const uint32_t id = living[s];
    if (!slot_is_there[s])
        return;
    end_slot(s);
    for (uint32_t at = event_count; at-- > 0;)
        if (events[at].kind == BEGIN && events[at].id == id) {
            begin_slot(s, events[at].bytes);
            return;
        }
    begin_slot(s, program->slots[s].bytes);
}

/* What is allocated some steps before it is used. */
static inline void begin_ahead(const program_t *program, uint32_t step, uint64_t factor)
{
    for (uint32_t s = 0; s < program->slot_count; s++)
        if (program->slots[s].ahead > 0 &&
            program->slots[s].birth == step + program->slots[s].ahead && !slot_is_there[s]) {
            begin_slot(s, program->slots[s].bytes * factor);
            slot_is_ahead[s] = true;
        }
}

/* Steps up to `end`; sizes are multiplied, as with a batch of another size. Slots that a short
 * round left alive are ended, those that are missing are begun. */
static inline void run_round(const program_t *program, uint32_t end, uint64_t factor, bool regular)
{
    for (uint32_t i = 0; i < end; i++) {
        const step_t *const step = &program->steps[i];
        event_t event = {.kind = OPERATION, .key = step->key, .regular = regular};
        begin_ahead(program, i, factor);
        for (uint32_t u = 0; u < step->use_count; u++) {
            const uint32_t s = step->slots[u];
            const bool anew = program->slots[s].birth == i;
            if (slot_is_there[s] && anew && !slot_is_ahead[s])
                end_slot(s);
            slot_is_ahead[s] = false;
            if (!slot_is_there[s])
                begin_slot(s, program->slots[s].bytes *
                                  (program->slots[s].birth == MOST_STEPS ? 1 : factor));
            event.ids[event.use_count] = living[s];
            event.roles[event.use_count++] = step->roles[u];
        }
        add_event(event);
        for (uint32_t s = 0; s < program->slot_count; s++)
            if (slot_is_there[s] && program->slots[s].death == i)
                end_slot(s);
        if (exchange_one_in > 0 && below(exchange_one_in) == 0)
            exchange_slot(program);
    }
}

static inline void start_program(const program_t *program)
{
    event_count = id_count = 0;
    memset(slot_is_there, 0, sizeof slot_is_there);
    memset(slot_is_ahead, 0, sizeof slot_is_ahead);
    for (uint32_t s = 0; s < program->slot_count; s++)
        if (program->slots[s].birth == MOST_STEPS)
            begin_slot(s, program->slots[s].bytes);
}

static program_t program, other;

/* Each begins with an operation that never came before: what deviates twice in the same way would
 * be a longer period. Alone it is a line of logging. */
static inline void deviate(void)
{
    add_event((event_t){.kind = OPERATION, .key = 10000 + event_count});
    switch (below(5)) {
    case 0:
        break;
    case 1: /* a short last batch */
        run_round(&program, program.step_count, 5, false);
        break;
    case 2: /* evaluation: only the first part, several times */
        for (uint64_t i = 1 + below(4); i-- > 0;)
            run_round(&program, 1 + (uint32_t)below(program.step_count - 1), 1, false);
        break;
    case 3: /* an exception: the round breaks off */
        run_round(&program, (uint32_t)below(program.step_count), 1, false);
        break;
    default: /* something else altogether, which has a period of its own */
        for (uint64_t i = below(9); i-- > 0;)
            for (uint32_t step = 0; step < other.step_count; step++)
                add_event((event_t){.kind = OPERATION, .key = 500 + other.steps[step].key});
        break;
    }
}

#endif
