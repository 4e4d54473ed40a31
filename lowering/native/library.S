# What programs call of a C library, in machine code: lowering/compiler/elf_link.py has the bytes of these
# functions (tests/lowering/test_elf_library.py assembles this and compares).  Every x86-64 CPU has
# what they use.  C's rules: arguments in rdi, rsi, rdx or xmm0, xmm1; results in rax or xmm0.
.intel_syntax noprefix

# memmove(to, from, bytes), which is memcpy as well.  Whatever overlaps is read before it is written:
# the last 16 bytes first, then in the order of growing addresses; the other way where `to` lies
# within what is read.
.section .text.memmove, "ax", @progbits
memmove:
    mov rax, rdi
    cmp rdx, 16
    jb few
    movups xmm4, [rsi + rdx - 16]
    movups xmm5, [rsi]
    cmp rdx, 32
    jbe both
    mov rcx, rdi
    sub rcx, rsi
    cmp rcx, rdx
    jb back
    lea rcx, [rdi + rdx - 16]
    sub rdx, 64
    jb rest
quads:
    movups xmm0, [rsi]
    movups xmm1, [rsi + 16]
    movups xmm2, [rsi + 32]
    movups xmm3, [rsi + 48]
    movups [rdi], xmm0
    movups [rdi + 16], xmm1
    movups [rdi + 32], xmm2
    movups [rdi + 48], xmm3
    add rsi, 64
    add rdi, 64
    sub rdx, 64
    jae quads
rest:
    add rdx, 48
    jle last
one:
    movups xmm0, [rsi]
    movups [rdi], xmm0
    add rsi, 16
    add rdi, 16
    sub rdx, 16
    jg one
last:
    movups [rcx], xmm4
    ret
back:
    sub rdx, 64
    jb back_rest
back_quads:
    movups xmm0, [rsi + rdx + 48]
    movups xmm1, [rsi + rdx + 32]
    movups xmm2, [rsi + rdx + 16]
    movups xmm3, [rsi + rdx]
    movups [rdi + rdx + 48], xmm0
    movups [rdi + rdx + 32], xmm1
    movups [rdi + rdx + 16], xmm2
    movups [rdi + rdx], xmm3
    sub rdx, 64
    jae back_quads
back_rest:
    add rdx, 48
    jle first
back_one:
    movups xmm0, [rsi + rdx]
    movups [rdi + rdx], xmm0
    sub rdx, 16
    jg back_one
first:
    movups [rax], xmm5
    ret
both:
    movups [rdi], xmm5
    movups [rdi + rdx - 16], xmm4
    ret
few:
    cmp edx, 8
    jae eight
    cmp edx, 4
    jae four
    test edx, edx
    je none
    movzx ecx, byte ptr [rsi]
    movzx r8d, byte ptr [rsi + rdx - 1]
    lea r9, [rdi + rdx - 1]
    shr edx
    movzx r10d, byte ptr [rsi + rdx]
    mov [rdi + rdx], r10b
    mov [rdi], cl
    mov [r9], r8b
none:
    ret
four:
    mov ecx, [rsi]
    mov r8d, [rsi + rdx - 4]
    mov [rdi], ecx
    mov [rdi + rdx - 4], r8d
    ret
eight:
    mov rcx, [rsi]
    mov r8, [rsi + rdx - 8]
    mov [rdi], rcx
    mov [rdi + rdx - 8], r8
    ret

# memset(to, value, bytes)
.section .text.memset, "ax", @progbits
memset:
    mov rax, rdi
    movzx esi, sil
    movabs rcx, 0x0101010101010101
    imul rsi, rcx
    cmp rdx, 16
    jb set_few
    movq xmm0, rsi
    punpcklqdq xmm0, xmm0
    movups [rdi + rdx - 16], xmm0
    sub rdx, 64
    jb set_rest
set_quads:
    movups [rdi], xmm0
    movups [rdi + 16], xmm0
    movups [rdi + 32], xmm0
    movups [rdi + 48], xmm0
    add rdi, 64
    sub rdx, 64
    jae set_quads
set_rest:
    add rdx, 48
    jle set_done
set_one:
    movups [rdi], xmm0
    add rdi, 16
    sub rdx, 16
    jg set_one
set_done:
    ret
set_few:
    cmp edx, 8
    jae set_eight
    cmp edx, 4
    jae set_four
    test edx, edx
    je set_done
    mov [rdi], sil
    mov [rdi + rdx - 1], sil
    shr edx
    mov [rdi + rdx], sil
    ret
set_four:
    mov [rdi], esi
    mov [rdi + rdx - 4], esi
    ret
set_eight:
    mov [rdi], rsi
    mov [rdi + rdx - 8], rsi
    ret

# fmodf(x, y): fprem takes up to 63 bits of the quotient at a time, and is exact; C2, bit 2 of ah, says
# that some are left.  Its NaN of x / 0 and inf / y is the CPU's.
.section .text.fmodf, "ax", @progbits
fmodf:
    movss [rsp - 4], xmm1
    fld dword ptr [rsp - 4]
    movss [rsp - 4], xmm0
    fld dword ptr [rsp - 4]
again:
    fprem
    fnstsw ax
    test ah, 4
    jne again
    fstp st(1)
    fstp dword ptr [rsp - 4]
    movss xmm0, [rsp - 4]
    ret

.section .note.GNU-stack, "", @progbits
