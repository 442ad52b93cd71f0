/* The dlsym hook on aarch64; see dlsym_x86_64.S. */
#if defined(__aarch64__)
    .text
    .globl dlsym
    .type dlsym, %function
    .p2align 4
dlsym:
    .cfi_startproc
    hint #34                     /* bti c */
    ldrb w9, [x1]
    cmp w9, #'c'
    b.ne .Lnccl
    ldrb w9, [x1, #1]
    cmp w9, #'u'
    b.eq .Ldecide
    b .Lreal
.Lnccl:
    cmp w9, #'n'
    b.ne .Lreal
    ldrb w9, [x1, #1]
    cmp w9, #'c'
    b.ne .Lreal
.Ldecide:
    stp x29, x30, [sp, #-32]!
    .cfi_def_cfa_offset 32
    stp x0, x1, [sp, #16]
    mov x29, sp
    mov x2, x30                  /* the caller */
    bl mdnn_dlsym_decide
    mov x9, x0
    mov x10, x1
    ldp x0, x1, [sp, #16]
    ldp x29, x30, [sp], #32
    .cfi_def_cfa_offset 0
    cbz x10, .Lreal              /* decided? then the answer was in x0 */
    mov x0, x9
    ret
.Lreal:
    adrp x9, mdnn_dlsym_real_pointer
    ldr x16, [x9, #:lo12:mdnn_dlsym_real_pointer]
    cbz x16, .Lresolve
    br x16
.Lresolve:
    stp x29, x30, [sp, #-32]!
    .cfi_def_cfa_offset 32
    stp x0, x1, [sp, #16]
    mov x29, sp
    bl mdnn_real_dlsym
    mov x16, x0
    ldp x0, x1, [sp, #16]
    ldp x29, x30, [sp], #32
    .cfi_def_cfa_offset 0
    br x16
    .cfi_endproc
    .size dlsym, .-dlsym
#endif
    .section .note.GNU-stack, "", %progbits
