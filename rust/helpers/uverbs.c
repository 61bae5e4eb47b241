// SPDX-License-Identifier: GPL-2.0
/* Helpers for user verbs: open files, handles and the locks within them. */
#include <linux/anon_inodes.h>
#include <linux/file.h>
#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/rwsem.h>
#include <linux/slab.h>
#include <rdma/uverbs_ioctl.h>
#include "uverbs.h"
#include "rdma_core.h"
#include "helpers.h"

void rdma_helper_rwsem_assert_held(struct rw_semaphore *sem)
{
	lockdep_assert_held(sem);
}

struct ib_device *rdma_helper_ufile_device(struct ib_uverbs_file *file)
{
	return srcu_dereference(file->device->ib_dev, &file->device->disassociate_srcu);
}

const struct uverbs_api_object *rdma_helper_ufile_type(struct ib_uverbs_file *file, u16 id)
{
	return uapi_get_object(file->device->uapi, id);
}

void rdma_helper_ufile_free(struct ib_uverbs_file *file)
{
	mutex_destroy(&file->umap_lock);
	mutex_destroy(&file->ucontext_lock);
	kfree(file);
}

struct ib_uobject *rdma_helper_uobject_alloc(size_t size)
{
	return kzalloc(size, GFP_USERS);
}

void rdma_helper_uobject_free(struct ib_uobject *uobject)
{
	kfree_rcu(uobject, rcu);
}

void rdma_helper_uobject_list_add(struct ib_uobject *uobject, struct ib_uverbs_file *file)
{
	list_add(&uobject->list, &file->uobjects);
}

void rdma_helper_uobject_list_del(struct ib_uobject *uobject)
{
	list_del_init(&uobject->list);
}

struct file *rdma_helper_uobject_file(const struct uverbs_obj_fd_type *type)
{
	return anon_inode_getfile(type->name, type->fops, NULL, type->flags);
}

void rdma_helper_fput_now(struct file *file)
{
	__fput_sync(file);
}
