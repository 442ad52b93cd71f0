/* The committed PTX, terminated, as `mdnn_accumulate_ptx`. */
    .section .rodata
    .globl mdnn_accumulate_ptx
    .hidden mdnn_accumulate_ptx
    .type mdnn_accumulate_ptx, %object
mdnn_accumulate_ptx:
    .incbin "shim/accumulate.ptx"
    .byte 0
    .size mdnn_accumulate_ptx, .-mdnn_accumulate_ptx
    .section .note.GNU-stack, "", %progbits
