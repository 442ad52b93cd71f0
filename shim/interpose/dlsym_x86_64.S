/* The dlsym hook. It must end in a jump to the real dlsym with the caller's own registers and return
 * address: glibc takes the caller's address to answer RTLD_NEXT and RTLD_DEFAULT.
 * A C function tail-calls only when optimized, so this is assembly. Names that do not begin
 * with "cu" or "nc" cost two or three compares and a jump. */
#if defined(__x86_64__)
    .text
    .globl dlsym
    .type dlsym, @function
    .p2align 4
dlsym:
    .cfi_startproc
    endbr64
    cmpb $'c', (%rsi)
    jne .Lnccl
    cmpb $'u', 1(%rsi)
    je .Ldecide
    jmp .Lreal
.Lnccl:
    cmpb $'n', (%rsi)
    jne .Lreal
    cmpb $'c', 1(%rsi)
    jne .Lreal
.Ldecide:
    pushq %rdi
    .cfi_adjust_cfa_offset 8
    pushq %rsi
    .cfi_adjust_cfa_offset 8
    subq $8, %rsp
    .cfi_adjust_cfa_offset 8
    movq 24(%rsp), %rdx          /* the caller */
    call mdnn_dlsym_decide
    addq $8, %rsp
    .cfi_adjust_cfa_offset -8
    popq %rsi
    .cfi_adjust_cfa_offset -8
    popq %rdi
    .cfi_adjust_cfa_offset -8
    testq %rdx, %rdx             /* decided? then the answer is in rax */
    je .Lreal
    ret
.Lreal:
    movq mdnn_dlsym_real_pointer(%rip), %rax
    testq %rax, %rax
    je .Lresolve
    jmp *%rax
.Lresolve:
    pushq %rdi
    .cfi_adjust_cfa_offset 8
    pushq %rsi
    .cfi_adjust_cfa_offset 8
    subq $8, %rsp
    .cfi_adjust_cfa_offset 8
    call mdnn_real_dlsym
    addq $8, %rsp
    .cfi_adjust_cfa_offset -8
    popq %rsi
    .cfi_adjust_cfa_offset -8
    popq %rdi
    .cfi_adjust_cfa_offset -8
    jmp *%rax
    .cfi_endproc
    .size dlsym, .-dlsym
#endif
    .section .note.GNU-stack, "", @progbits
