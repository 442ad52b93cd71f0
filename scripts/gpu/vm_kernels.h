/* Two kernels for scripts/gpu/vm_experiments.c, both with the parameters
 *   u64 amount, u64 times, u64 progress, u32 index, u64 data
 * They write the global timer (ns) at their begin and end to times[2 * index] and the next word, and
 * then index + 1 to *progress, which lies in host memory.
 *   spin   one thread: `amount` cycles
 *   read   the whole grid reads `amount` vectors of 16 bytes from `data`; the times are the first
 *          block's. It is there to see whether changed mappings slow kernels that use memory. */
#ifndef VM_KERNELS_H
#define VM_KERNELS_H

#define PARAMETERS                                                                                 \
    "(.param .u64 amount, .param .u64 times, .param .u64 progress, .param .u32 index,\n"           \
    " .param .u64 data)\n"
#define LOAD                                                                                       \
    " ld.param.u64 %rd1, [amount];\n ld.param.u64 %rd2, [times];\n"                                \
    " ld.param.u64 %rd3, [progress];\n ld.param.u32 %r1, [index];\n"                               \
    " ld.param.u64 %rd10, [data];\n"
#define REPORT                                                                                     \
    " mul.wide.u32 %rd9, %r1, 16;\n add.u64 %rd9, %rd2, %rd9;\n"                                   \
    " st.global.u64 [%rd9], %rd4;\n st.global.u64 [%rd9+8], %rd8;\n"                               \
    " add.u32 %r2, %r1, 1;\n st.volatile.global.u32 [%rd3], %r2;\n"

static const char kernels_ptx[] =
    ".version 7.0\n.target sm_75\n.address_size 64\n"
    ".visible .entry spin" PARAMETERS "{\n"
    " .reg .pred %p1;\n .reg .b32 %r<3>;\n .reg .b64 %rd<11>;\n" LOAD
    " mov.u64 %rd4, %globaltimer;\n mov.u64 %rd5, %clock64;\n"
    "spinning:\n mov.u64 %rd6, %clock64;\n sub.u64 %rd7, %rd6, %rd5;\n"
    " setp.lt.u64 %p1, %rd7, %rd1;\n @%p1 bra spinning;\n"
    " mov.u64 %rd8, %globaltimer;\n" REPORT " ret;\n}\n"
    ".visible .entry read" PARAMETERS "{\n"
    " .reg .pred %p<4>;\n .reg .b32 %r<16>;\n .reg .b64 %rd<16>;\n" LOAD
    " mov.u64 %rd4, %globaltimer;\n"
    " mov.u32 %r3, %ctaid.x;\n mov.u32 %r4, %ntid.x;\n mov.u32 %r5, %tid.x;\n"
    " mad.lo.u32 %r6, %r3, %r4, %r5;\n mov.u32 %r7, %nctaid.x;\n mul.lo.u32 %r7, %r7, %r4;\n"
    " cvt.u64.u32 %rd11, %r6;\n cvt.u64.u32 %rd12, %r7;\n mov.u32 %r8, 0;\n"
    "reading:\n setp.ge.u64 %p1, %rd11, %rd1;\n @%p1 bra done;\n"
    " shl.b64 %rd13, %rd11, 4;\n add.u64 %rd13, %rd10, %rd13;\n"
    " ld.global.v4.u32 {%r9, %r10, %r11, %r12}, [%rd13];\n"
    " add.u32 %r9, %r9, %r10;\n add.u32 %r11, %r11, %r12;\n add.u32 %r9, %r9, %r11;\n"
    " xor.b32 %r8, %r8, %r9;\n add.u64 %rd11, %rd11, %rd12;\n bra reading;\n"
    "done:\n mov.u64 %rd8, %globaltimer;\n"
    /* Never true of memory filled with one value; keeps the loads. */
    " setp.eq.u32 %p2, %r8, 1592594996;\n @%p2 st.global.u32 [%rd2], %r8;\n"
    " setp.ne.u32 %p3, %r6, 0;\n @%p3 bra end;\n" REPORT "end:\n ret;\n}\n";

#endif
