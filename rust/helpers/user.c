// SPDX-License-Identifier: GPL-2.0
/* Helpers for memory of programs. */
#include <linux/uaccess.h>
#include <rdma/ib_verbs.h>
#include "helpers.h"

unsigned long rdma_helper_clear_user(void __user *to, unsigned long n)
{
	return clear_user(to, n);
}

int rdma_helper_put_user_u16(u16 value, u16 __user *to)
{
	return put_user(value, to);
}

int rdma_helper_copy_struct_from_user(void *dst, size_t ksize, const void __user *src,
				      size_t usize)
{
	return copy_struct_from_user(dst, ksize, src, usize);
}

int rdma_helper_get_user_u64(u64 *value, const u64 __user *from)
{
	return get_user(*value, from);
}

int rdma_helper_put_user_u64(u64 value, u64 __user *to)
{
	return put_user(value, to);
}

bool rdma_helper_access_ok(const void __user *at, unsigned long len)
{
	return access_ok(at, len);
}

bool rdma_helper_buffer_cleared(const void __user *at, unsigned long len)
{
	return ib_is_buffer_cleared(at, len);
}
