/* Whether kernels, copies, memsets and atomic operations do right on ranges of device and host memory side
 * by side, and how fast. Prints a JSON object a line: {"begin": case} before each case, so that whoever
 * reads on knows which one ended the process; then its layout, whether it was right, time and rate.
 *
 *     mixed_border [CASE]     goes on behind that case, as a process does that follows one that died
 *
 * Knows nothing of the library. */
#include "mixed_cases.cuh"

#include <unistd.h>

mixed_range_t ranges[2];
unsigned char *ends[ENDS];
std::vector<uint32_t> contents[2];
std::vector<unsigned char> scratch;
unsigned long long *sum;
cudaStream_t stream;
cudaEvent_t begin_event, end_event;

static mixed_layout_t layout;

static uint32_t hash(uint64_t number)
{
    number = (number ^ (number >> 31)) * 0x7fb5d329728ea185ull;
    number = (number ^ (number >> 27)) * 0x81dadef4bc2dd44dull;
    return (uint32_t)(number >> 32);
}

static bool skipping; /* up to this case */
static std::string last;

static void print_row(const named_case_t &each, const outcome_t &found)
{
    printf("{\"case\": \"%s\", \"layout\": \"%s\", \"right\": %s, \"ms\": %.4f, \"gb_s\": %.1f, "
           "\"note\": \"%s\"}\n",
           each.name.c_str(), mixed_layout_names[layout], found.right ? "true" : "false", found.ms,
           found.ms > 0 ? found.bytes / found.ms / 1e6 : 0, found.note.c_str());
}

static void run_case(const named_case_t &each)
{
    const std::string full = std::string(mixed_layout_names[layout]) + ": " + each.name;
    if (skipping) {
        skipping = full != last;
        return;
    }
    printf("{\"begin\": \"%s\"}\n", full.c_str());
    fflush(stdout);
    try {
        print_row(each, each.run());
    } catch (const failure &why) {
        printf("{\"case\": \"%s\", \"layout\": \"%s\", \"right\": false, \"error\": \"%s\"}\n",
               each.name.c_str(), mixed_layout_names[layout], why.text.c_str());
        fflush(stdout);
        (void)cudaGetLastError();
        if (cudaDeviceSynchronize() != cudaSuccess)
            _exit(3); /* the context is lost */
        must(cudaMemset(sum, 0, 8), "cudaMemset");
    }
    fflush(stdout);
}

static void run_layout(void)
{
    for (int i = 0; i < 2; i++) {
        ranges[i] = mixed_range_make(layout, range_chunks, true);
        ends[MIXED_A + i] = (unsigned char *)ranges[i].at;
    }
    for (const std::vector<named_case_t> *group :
         {&kernel_cases, &atomic_cases, &bulk_cases, &copy_cases})
        for (const named_case_t &each : *group)
            run_case(each);
    for (mixed_range_t &range : ranges)
        mixed_range_end(&range);
}

static void make_ends(void)
{
    for (int which = 0; which < 2; which++) {
        contents[which].resize(range_words);
        for (size_t i = 0; i < range_words; i++)
            contents[which][i] = hash(2 * i + which);
    }
    scratch.resize(range_bytes);
    must(cudaMalloc(&ends[PLAIN], range_bytes), "cudaMalloc");
    must(cudaMallocHost(&ends[PINNED], range_bytes), "cudaMallocHost");
    ends[PAGEABLE] = (unsigned char *)malloc(range_bytes);
    must(cudaMalloc(&sum, 8), "cudaMalloc");
    must(cudaMemset(sum, 0, 8), "cudaMemset");
    /* In order with the default stream, where synchronous copies and memsets are: what they bring to
     * the device may arrive after they return, and the events beside them are to time them. */
    must(cudaStreamCreate(&stream), "cudaStreamCreate");
    must(cudaEventCreate(&begin_event), "cudaEventCreate");
    must(cudaEventCreate(&end_event), "cudaEventCreate");
}

int main(int argc, char **argv)
{
    skipping = argc > 1;
    last = skipping ? argv[1] : "";
    try {
        must(cuInit(0), "cuInit");
        must(cudaFree(NULL), "cudaFree");
        make_ends();
        for (int i = 0; i < MIXED_LAYOUTS; i++) {
            layout = (mixed_layout_t)i;
            if (skipping && last.rfind(std::string(mixed_layout_names[i]) + ": ", 0) != 0)
                continue;
            run_layout();
        }
    } catch (const failure &why) {
        printf("{\"failed\": \"%s\"}\n", why.text.c_str());
        return 3;
    }
    return 0;
}
