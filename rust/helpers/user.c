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

int rdma_helper_put_user_u32(u32 value, u32 __user *to)
{
	might_fault();
	scoped_user_write_access(to, fault)
		unsafe_put_user(value, to, fault);
	return 0;
fault:
	return -EFAULT;
}

/* Copies a few words, in one section of access to user memory. */
bool rdma_helper_get_words(u64 *to, const u64 __user *from, unsigned int count)
{
	unsigned int i;

	if (!IS_ENABLED(CONFIG_HAVE_EFFICIENT_UNALIGNED_ACCESS) &&
	    !IS_ALIGNED((unsigned long)from, sizeof(*from)))
		return !copy_from_user(to, from, count * sizeof(*from));
	might_fault();
	scoped_user_read_access_size(from, count * sizeof(*from), fault)
		for (i = 0; i < count; i++)
			unsafe_get_user(to[i], &from[i], fault);
	return true;
fault:
	return false;
}

bool rdma_helper_access_ok(const void __user *at, unsigned long len)
{
	return access_ok(at, len);
}

bool rdma_helper_buffer_cleared(const void __user *at, unsigned long len)
{
	return ib_is_buffer_cleared(at, len);
}
