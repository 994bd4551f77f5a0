// SPDX-License-Identifier: Apache-2.0
#include "guarded.hpp"

// No stack frame and no call, so that resuming at `fault` needs only the program counter: rdx is
// then the number of bytes not yet copied.
asm(R"(
.text
.hidden denizen_lens_copy
.hidden denizen_lens_copy_begin
.hidden denizen_lens_copy_end
.hidden denizen_lens_copy_fault
.globl denizen_lens_copy
.globl denizen_lens_copy_begin
.globl denizen_lens_copy_end
.globl denizen_lens_copy_fault
.type denizen_lens_copy, @function
denizen_lens_copy:
    .cfi_startproc
    endbr64
denizen_lens_copy_begin:
1:  testb $15, %sil
    jz 2f
    cmpq $4, %rdx
    jb 5f
    movl (%rsi), %eax
    movl %eax, (%rdi)
    addq $4, %rsi
    addq $4, %rdi
    subq $4, %rdx
    jmp 1b
2:  cmpq $64, %rdx
    jb 3f
    movntdqa (%rsi), %xmm0
    movntdqa 16(%rsi), %xmm1
    movntdqa 32(%rsi), %xmm2
    movntdqa 48(%rsi), %xmm3
    movdqu %xmm0, (%rdi)
    movdqu %xmm1, 16(%rdi)
    movdqu %xmm2, 32(%rdi)
    movdqu %xmm3, 48(%rdi)
    addq $64, %rsi
    addq $64, %rdi
    subq $64, %rdx
    jmp 2b
3:  cmpq $16, %rdx
    jb 4f
    movntdqa (%rsi), %xmm0
    movdqu %xmm0, (%rdi)
    addq $16, %rsi
    addq $16, %rdi
    subq $16, %rdx
    jmp 3b
4:  cmpq $4, %rdx
    jb 5f
    movl (%rsi), %eax
    movl %eax, (%rdi)
    addq $4, %rsi
    addq $4, %rdi
    subq $4, %rdx
    jmp 4b
denizen_lens_copy_end:
5:
denizen_lens_copy_fault:
    movq %rdx, %rax
    ret
    .cfi_endproc
.size denizen_lens_copy, .-denizen_lens_copy
)");
