/* The committed PTX, terminated, as `mdnn_kernels_ptx`. */
    .section .rodata
    .globl mdnn_kernels_ptx
    .hidden mdnn_kernels_ptx
    .type mdnn_kernels_ptx, %object
mdnn_kernels_ptx:
    .incbin "shim/real/kernels.ptx"
    .byte 0
    .size mdnn_kernels_ptx, .-mdnn_kernels_ptx
    .section .note.GNU-stack, "", %progbits
