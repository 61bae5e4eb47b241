// SPDX-License-Identifier: GPL-2.0
/*
 * Definitions of the driver's own: an object with a handle ("thing"), one with a file
 * ("stream"), one that is disabled, a method with an attribute of every kind, and
 * attributes added to methods of the core.
 */
#include <linux/anon_inodes.h>
#include <linux/crc32.h>
#include <linux/fs.h>
#include <linux/module.h>
#include <linux/poll.h>
#include <linux/slab.h>
#include <linux/uaccess.h>
#include "fakeverbs.h"

#define UVERBS_MODULE_NAME fakeverbs
#include <rdma/uverbs_named_ioctl.h>

enum fv_objects {
	FV_OBJECT_THING = UVERBS_ID_DRIVER_NS,
	FV_OBJECT_STREAM,
	FV_OBJECT_HIDDEN,
};

enum fv_thing_methods {
	FV_METHOD_THING_CREATE = UVERBS_ID_DRIVER_NS,
	FV_METHOD_THING_DESTROY,
	FV_METHOD_THING_READ,
	FV_METHOD_THING_WRITE,
	FV_METHOD_THING_EVERY_KIND,
	FV_METHOD_THING_ANY,
};

enum fv_stream_methods {
	FV_METHOD_STREAM_ALLOC = UVERBS_ID_DRIVER_NS,
	FV_METHOD_STREAM_PUSH,
};

enum fv_hidden_methods {
	FV_METHOD_HIDDEN_PING = UVERBS_ID_DRIVER_NS,
};

enum fv_action_methods {
	FV_METHOD_ACTION_CREATE = UVERBS_ID_DRIVER_NS,
};

enum fv_thing_attrs {
	FV_ATTR_THING_HANDLE = UVERBS_ID_DRIVER_NS,
	FV_ATTR_THING_VALUE,
	FV_ATTR_THING_ID,
};

enum fv_any_attrs {
	FV_ATTR_ANY_HANDLE = UVERBS_ID_DRIVER_NS,
	FV_ATTR_ANY_WRITE,
	FV_ATTR_ANY_OBJECT,
};

/* UVERBS_ATTR_UHW_IN and _OUT are the first two of the namespace. */
enum fv_every_kind_attrs {
	FV_ATTR_EVERY_U64 = UVERBS_ID_DRIVER_NS_WITH_UHW,
	FV_ATTR_EVERY_STRUCT,
	FV_ATTR_EVERY_COPIED,
	FV_ATTR_EVERY_CONST,
	FV_ATTR_EVERY_FLAGS32,
	FV_ATTR_EVERY_FLAGS64,
	FV_ATTR_EVERY_ENUM,
	FV_ATTR_EVERY_RAW_FD,
	FV_ATTR_EVERY_FD,
	FV_ATTR_EVERY_ANY,
	FV_ATTR_EVERY_THINGS,
	FV_ATTR_EVERY_OUT_U64,
	FV_ATTR_EVERY_OUT_STRUCT,
	FV_ATTR_EVERY_OUT_BYTES,
};

enum fv_stream_attrs {
	FV_ATTR_STREAM_HANDLE = UVERBS_ID_DRIVER_NS,
	FV_ATTR_STREAM_VALUE,
};

enum fv_action_attrs {
	FV_ATTR_ACTION_HANDLE = UVERBS_ID_DRIVER_NS,
	FV_ATTR_ACTION_ID,
};

enum fv_query_context_attrs {
	FV_ATTR_QUERY_CONTEXT_ID = UVERBS_ID_DRIVER_NS,
};

#define FV_FLAGS 0x7
#define FV_CONST_MAX 100

/* Three words that older programs know, and one that came later. */
struct fv_three {
	__u64 first, second, third, later;
};

/* What the method with every kind saw. */
struct fv_seen {
	__u64 value;
	__u64 three[4];
	__u64 constant;
	__u64 flags64;
	__u32 flags32;
	__u32 copied_len;
	__u32 copied_crc;
	__s32 enum_id;
	__u64 enum_first;
	__u32 enum_len;
	__s32 raw_fd;
	__u32 stream;
	__u32 any;
	__u32 things;
	__u32 present;
	__u64 thing_ids;
};

/* An object with a handle */

struct fv_thing {
	struct fv_obj obj;
	u64 value;
};

static int destroy_thing(struct ib_uobject *uobject, enum rdma_remove_reason why,
			 struct uverbs_attr_bundle *attrs)
{
	struct fv_thing *thing = uobject->object;
	int ret = fv_call(FV_destroy_thing, thing->obj.id, NULL, why, 0, 0, 0);

	if (ret)
		return ret;
	fv_forget(&thing->obj);
	kfree(thing);
	return 0;
}

static int UVERBS_HANDLER(FV_METHOD_THING_CREATE)(struct uverbs_attr_bundle *attrs)
{
	struct ib_uobject *uobject =
		uverbs_attr_get_uobject(attrs, FV_ATTR_THING_HANDLE);
	struct fv_thing *thing;
	u32 id = fv_new_id();
	int ret;

	thing = kzalloc(sizeof(*thing), GFP_KERNEL);
	if (!thing)
		return -ENOMEM;
	ret = uverbs_copy_from(&thing->value, attrs, FV_ATTR_THING_VALUE);
	if (!ret)
		ret = fv_call(FV_create_thing, id, NULL, thing->value, 0, 0, 0);
	if (ret) {
		kfree(thing);
		return ret;
	}
	fv_remember(&thing->obj, "thing", id, thing);
	uobject->object = thing;
	uverbs_finalize_uobj_create(attrs, FV_ATTR_THING_HANDLE);
	/* The object exists: an answer that cannot be written destroys it. */
	return uverbs_copy_to(attrs, FV_ATTR_THING_ID, &id, sizeof(id));
}

static int UVERBS_HANDLER(FV_METHOD_THING_READ)(struct uverbs_attr_bundle *attrs)
{
	struct fv_thing *thing =
		uverbs_attr_get_obj(attrs, FV_ATTR_THING_HANDLE);
	int ret = fv_call(FV_read_thing, thing->obj.id, NULL, thing->value, 0,
			  0, 0);

	if (ret)
		return ret;
	return uverbs_copy_to(attrs, FV_ATTR_THING_VALUE, &thing->value,
			      sizeof(thing->value));
}

static int UVERBS_HANDLER(FV_METHOD_THING_WRITE)(struct uverbs_attr_bundle *attrs)
{
	struct fv_thing *thing =
		uverbs_attr_get_obj(attrs, FV_ATTR_THING_HANDLE);
	u64 value;
	int ret;

	ret = uverbs_copy_from(&value, attrs, FV_ATTR_THING_VALUE);
	if (!ret)
		ret = fv_call(FV_write_thing, thing->obj.id, NULL, value, 0, 0,
			      0);
	if (!ret)
		thing->value = value;
	return ret;
}

/* Takes a handle of any type for reading or for writing. */
static int UVERBS_HANDLER(FV_METHOD_THING_ANY)(struct uverbs_attr_bundle *attrs)
{
	struct ib_uobject *read =
		uverbs_attr_get_uobject(attrs, FV_ATTR_ANY_HANDLE);
	struct ib_uobject *written =
		uverbs_attr_get_uobject(attrs, FV_ATTR_ANY_WRITE);
	u32 types[2] = {
		uobj_get_object_id(read),
		IS_ERR(written) ? U32_MAX : uobj_get_object_id(written),
	};
	int ret = fv_call(FV_any_thing, 0, NULL, types[0], types[1], 0, 0);

	if (ret)
		return ret;
	return uverbs_copy_to(attrs, FV_ATTR_ANY_OBJECT, types, sizeof(types));
}

/* An object with a file: what is pushed is read from it, eight bytes each. */

struct fv_stream {
	struct ib_uobject uobject;
	struct fv_obj obj;
	wait_queue_head_t wait;
	/* protects what follows */
	spinlock_t lock;
	u64 values[16];
	unsigned int head, count;
	bool gone;
};

static struct fv_stream *to_stream(struct ib_uobject *uobject)
{
	return container_of(uobject, struct fv_stream, uobject);
}

static bool stream_ready(struct fv_stream *stream)
{
	return READ_ONCE(stream->count) || READ_ONCE(stream->gone);
}

static ssize_t stream_read(struct file *file, char __user *to, size_t size,
			   loff_t *pos)
{
	struct fv_stream *stream = to_stream(file->private_data);
	u64 value;
	int ret;

	if (size < sizeof(value))
		return -EINVAL;
	for (;;) {
		spin_lock_irq(&stream->lock);
		if (stream->count)
			break;
		ret = stream->gone ? -EIO : 0;
		spin_unlock_irq(&stream->lock);
		if (ret)
			return ret;
		if (file->f_flags & O_NONBLOCK)
			return -EAGAIN;
		ret = wait_event_interruptible(stream->wait,
					       stream_ready(stream));
		if (ret)
			return ret;
	}
	value = stream->values[stream->head];
	stream->head = (stream->head + 1) % ARRAY_SIZE(stream->values);
	stream->count--;
	spin_unlock_irq(&stream->lock);
	return copy_to_user(to, &value, sizeof(value)) ? -EFAULT : sizeof(value);
}

static __poll_t stream_poll(struct file *file, struct poll_table_struct *table)
{
	struct fv_stream *stream = to_stream(file->private_data);
	__poll_t events = 0;

	poll_wait(file, &stream->wait, table);
	spin_lock_irq(&stream->lock);
	if (stream->count)
		events |= EPOLLIN | EPOLLRDNORM;
	if (stream->gone)
		events |= EPOLLERR;
	spin_unlock_irq(&stream->lock);
	return events;
}

static const struct file_operations stream_fops = {
	.owner = THIS_MODULE,
	.poll = stream_poll,
	.read = stream_read,
	.release = uverbs_uobject_fd_release,
};

static void destroy_stream(struct ib_uobject *uobject,
			   enum rdma_remove_reason why)
{
	struct fv_stream *stream = to_stream(uobject);

	fv_call(FV_destroy_stream, stream->obj.id, NULL, why, 0, 0, 0);
	fv_forget(&stream->obj);
	spin_lock_irq(&stream->lock);
	stream->gone = true;
	spin_unlock_irq(&stream->lock);
	wake_up_interruptible(&stream->wait);
}

static int UVERBS_HANDLER(FV_METHOD_STREAM_ALLOC)(struct uverbs_attr_bundle *attrs)
{
	struct fv_stream *stream = to_stream(
		uverbs_attr_get_uobject(attrs, FV_ATTR_STREAM_HANDLE));
	u32 id = fv_new_id();
	int ret = fv_call(FV_alloc_stream, id, NULL, 0, 0, 0, 0);

	if (ret)
		return ret;
	spin_lock_init(&stream->lock);
	init_waitqueue_head(&stream->wait);
	fv_remember(&stream->obj, "stream", id, stream);
	return 0;
}

static int UVERBS_HANDLER(FV_METHOD_STREAM_PUSH)(struct uverbs_attr_bundle *attrs)
{
	struct fv_stream *stream = to_stream(
		uverbs_attr_get_uobject(attrs, FV_ATTR_STREAM_HANDLE));
	u64 value;
	int ret;

	ret = uverbs_copy_from(&value, attrs, FV_ATTR_STREAM_VALUE);
	if (!ret)
		ret = fv_call(FV_push_stream, stream->obj.id, NULL, value, 0, 0,
			      0);
	if (ret)
		return ret;
	spin_lock_irq(&stream->lock);
	if (stream->count == ARRAY_SIZE(stream->values))
		ret = -ENOSPC;
	else
		stream->values[(stream->head + stream->count++) %
			       ARRAY_SIZE(stream->values)] = value;
	spin_unlock_irq(&stream->lock);
	wake_up_interruptible(&stream->wait);
	return ret;
}

/* A method with an attribute of every kind */

static const struct uverbs_attr_spec enum_specs[] = {
	{ .type = UVERBS_ATTR_TYPE_PTR_IN, UVERBS_ATTR_NO_DATA() },
	{ .type = UVERBS_ATTR_TYPE_PTR_IN, UVERBS_ATTR_TYPE(u32) },
	{ .type = UVERBS_ATTR_TYPE_PTR_IN,
	  UVERBS_ATTR_STRUCT(struct fv_three, third) },
};

static int get_enum(struct uverbs_attr_bundle *attrs, struct fv_seen *seen)
{
	struct fv_three three;
	u32 word;
	int ret;

	seen->enum_id = uverbs_attr_get_enum_id(attrs, FV_ATTR_EVERY_ENUM);
	switch (seen->enum_id) {
	case 0:
		return 0;
	case 1:
		ret = uverbs_copy_from(&word, attrs, FV_ATTR_EVERY_ENUM);
		seen->enum_first = word;
		break;
	case 2:
		ret = uverbs_copy_from_or_zero(&three, attrs, FV_ATTR_EVERY_ENUM);
		seen->enum_first = three.first;
		break;
	default:
		return seen->enum_id == -ENOENT ? 0 : -EINVAL;
	}
	seen->enum_len = uverbs_attr_get_len(attrs, FV_ATTR_EVERY_ENUM);
	return ret;
}

static int get_values(struct uverbs_attr_bundle *attrs, struct fv_seen *seen)
{
	int ret;

	ret = uverbs_copy_from(&seen->value, attrs, FV_ATTR_EVERY_U64);
	if (ret)
		return ret;
	ret = uverbs_copy_from_or_zero(&seen->three, attrs,
				       FV_ATTR_EVERY_STRUCT);
	if (IS_UVERBS_COPY_ERR(ret))
		return ret;
	ret = uverbs_get_const_default(&seen->constant, attrs,
				       FV_ATTR_EVERY_CONST, 42);
	if (ret)
		return ret;
	if (seen->constant > FV_CONST_MAX)
		return -EINVAL;
	/* Those that are absent are 0. */
	ret = uverbs_get_flags32(&seen->flags32, attrs, FV_ATTR_EVERY_FLAGS32,
				 FV_FLAGS);
	if (ret)
		return ret;
	ret = uverbs_get_flags64(&seen->flags64, attrs, FV_ATTR_EVERY_FLAGS64,
				 FV_FLAGS | 1ULL << 40);
	if (ret)
		return ret;
	if (uverbs_attr_is_valid(attrs, FV_ATTR_EVERY_COPIED)) {
		seen->copied_len =
			uverbs_attr_get_len(attrs, FV_ATTR_EVERY_COPIED);
		seen->copied_crc =
			crc32_le(~0,
				 uverbs_attr_get_alloced_ptr(attrs,
							     FV_ATTR_EVERY_COPIED),
				 seen->copied_len) ^ ~0;
	}
	seen->raw_fd = -1;
	if (uverbs_attr_is_valid(attrs, FV_ATTR_EVERY_RAW_FD)) {
		ret = uverbs_get_raw_fd(&seen->raw_fd, attrs,
					FV_ATTR_EVERY_RAW_FD);
		if (ret)
			return ret;
	}
	return get_enum(attrs, seen);
}

static void get_objects(struct uverbs_attr_bundle *attrs, struct fv_seen *seen)
{
	struct ib_uobject *stream, *any, **things;
	int i;

	stream = uverbs_attr_get_uobject(attrs, FV_ATTR_EVERY_FD);
	if (!IS_ERR(stream))
		seen->stream = to_stream(stream)->obj.id;
	any = uverbs_attr_get_uobject(attrs, FV_ATTR_EVERY_ANY);
	seen->any = IS_ERR(any) ? U32_MAX : uobj_get_object_id(any);
	seen->things =
		uverbs_attr_get_uobjs_arr(attrs, FV_ATTR_EVERY_THINGS, &things);
	for (i = 0; i < seen->things; i++) {
		struct fv_thing *thing = things[i]->object;

		seen->thing_ids += thing->obj.id;
	}
}

static int UVERBS_HANDLER(FV_METHOD_THING_EVERY_KIND)(
	struct uverbs_attr_bundle *attrs)
{
	struct fv_three three = { 1, 2, 3, 4 };
	struct fv_seen seen = {};
	int i, ret;

	ret = get_values(attrs, &seen);
	if (ret)
		return ret;
	get_objects(attrs, &seen);
	for (i = FV_ATTR_EVERY_U64; i <= FV_ATTR_EVERY_OUT_BYTES; i++)
		if (uverbs_attr_is_valid(attrs, i))
			seen.present |= BIT(i - FV_ATTR_EVERY_U64);
	ret = fv_call(FV_every_kind, 0, &attrs->driver_udata, seen.present,
		      seen.value, seen.things, seen.enum_id);
	if (ret)
		return ret;
	ret = uverbs_copy_to(attrs, FV_ATTR_EVERY_OUT_U64, &seen.value,
			     sizeof(seen.value));
	if (IS_UVERBS_COPY_ERR(ret))
		return ret;
	ret = uverbs_copy_to_struct_or_zero(attrs, FV_ATTR_EVERY_OUT_STRUCT,
					    &three, sizeof(three));
	if (IS_UVERBS_COPY_ERR(ret))
		return ret;
	ret = uverbs_copy_to(attrs, FV_ATTR_EVERY_OUT_BYTES, &seen,
			     sizeof(seen));
	return IS_UVERBS_COPY_ERR(ret) ? ret : 0;
}

/* Flow actions, which nothing in the core makes. */
static int UVERBS_HANDLER(FV_METHOD_ACTION_CREATE)(struct uverbs_attr_bundle *attrs)
{
	struct ib_uobject *uobject =
		uverbs_attr_get_uobject(attrs, FV_ATTR_ACTION_HANDLE);
	struct fv_flow_action *action;
	u32 id = fv_new_id();
	int ret;

	action = kzalloc(sizeof(*action), GFP_KERNEL);
	if (!action)
		return -ENOMEM;
	ret = fv_call(FV_create_flow_action, id, NULL, 0, 0, 0, 0);
	if (ret) {
		kfree(action);
		return ret;
	}
	fv_remember(&action->obj, "flow_action", id, &action->ib);
	uverbs_flow_action_fill_action(&action->ib, uobject,
				       attrs->context->device,
				       IB_FLOW_ACTION_UNSPECIFIED);
	uverbs_finalize_uobj_create(attrs, FV_ATTR_ACTION_HANDLE);
	return uverbs_copy_to(attrs, FV_ATTR_ACTION_ID, &id, sizeof(id));
}

static int UVERBS_HANDLER(FV_METHOD_HIDDEN_PING)(struct uverbs_attr_bundle *attrs)
{
	WARN_ON(1);
	return 0;
}

/* Attributes added to methods of the core */

int fv_added_attrs(struct uverbs_attr_bundle *attrs, u16 in, u16 out, u32 id)
{
	u64 value;
	int ret;

	ret = uverbs_copy_from(&value, attrs, in);
	if (ret)
		return IS_UVERBS_COPY_ERR(ret) ? ret : 0;
	value += id;
	ret = uverbs_copy_to(attrs, out, &value, sizeof(value));
	return IS_UVERBS_COPY_ERR(ret) ? ret : 0;
}

int fv_query_ucontext(struct ib_ucontext *ib, struct uverbs_attr_bundle *attrs)
{
	u32 id = container_of(ib, struct fv_ucontext, ib)->obj.id;
	int ret = fv_call(FV_query_ucontext, id, NULL, 0, 0, 0, 0);

	if (ret)
		return ret;
	ret = uverbs_copy_to(attrs, FV_ATTR_QUERY_CONTEXT_ID, &id, sizeof(id));
	return IS_UVERBS_COPY_ERR(ret) ? ret : 0;
}

/* The trees */

DECLARE_UVERBS_NAMED_METHOD(
	FV_METHOD_THING_CREATE,
	UVERBS_ATTR_IDR(FV_ATTR_THING_HANDLE, FV_OBJECT_THING,
			UVERBS_ACCESS_NEW, UA_MANDATORY),
	NULL,
	UVERBS_ATTR_PTR_IN(FV_ATTR_THING_VALUE, UVERBS_ATTR_TYPE(u64),
			   UA_MANDATORY),
	UVERBS_ATTR_PTR_OUT(FV_ATTR_THING_ID, UVERBS_ATTR_TYPE(u32),
			    UA_MANDATORY));

DECLARE_UVERBS_NAMED_METHOD_DESTROY(
	FV_METHOD_THING_DESTROY,
	UVERBS_ATTR_IDR(FV_ATTR_THING_HANDLE, FV_OBJECT_THING,
			UVERBS_ACCESS_DESTROY, UA_MANDATORY));

DECLARE_UVERBS_NAMED_METHOD(
	FV_METHOD_THING_READ,
	UVERBS_ATTR_IDR(FV_ATTR_THING_HANDLE, FV_OBJECT_THING,
			UVERBS_ACCESS_READ, UA_MANDATORY),
	UVERBS_ATTR_PTR_OUT(FV_ATTR_THING_VALUE, UVERBS_ATTR_TYPE(u64),
			    UA_MANDATORY));

DECLARE_UVERBS_NAMED_METHOD(
	FV_METHOD_THING_WRITE,
	UVERBS_ATTR_IDR(FV_ATTR_THING_HANDLE, FV_OBJECT_THING,
			UVERBS_ACCESS_WRITE, UA_MANDATORY),
	UVERBS_ATTR_PTR_IN(FV_ATTR_THING_VALUE, UVERBS_ATTR_TYPE(u64),
			   UA_MANDATORY));

DECLARE_UVERBS_NAMED_METHOD(
	FV_METHOD_THING_ANY,
	UVERBS_ATTR_IDR(FV_ATTR_ANY_HANDLE, UVERBS_IDR_ANY_OBJECT,
			UVERBS_ACCESS_READ, UA_MANDATORY),
	UVERBS_ATTR_IDR(FV_ATTR_ANY_WRITE, UVERBS_IDR_ANY_OBJECT,
			UVERBS_ACCESS_WRITE, UA_OPTIONAL),
	UVERBS_ATTR_PTR_OUT(FV_ATTR_ANY_OBJECT, UVERBS_ATTR_TYPE(u64),
			    UA_MANDATORY));

DECLARE_UVERBS_NAMED_METHOD(
	FV_METHOD_THING_EVERY_KIND,
	UVERBS_ATTR_PTR_IN(FV_ATTR_EVERY_U64, UVERBS_ATTR_TYPE(u64),
			   UA_MANDATORY),
	UVERBS_ATTR_PTR_IN(FV_ATTR_EVERY_STRUCT,
			   UVERBS_ATTR_STRUCT(struct fv_three, third),
			   UA_OPTIONAL),
	UVERBS_ATTR_PTR_IN(FV_ATTR_EVERY_COPIED, UVERBS_ATTR_MIN_SIZE(1),
			   UA_OPTIONAL, UA_ALLOC_AND_COPY),
	UVERBS_ATTR_CONST_IN(FV_ATTR_EVERY_CONST, enum fv_objects,
			     UA_OPTIONAL),
	UVERBS_ATTR_FLAGS_IN(FV_ATTR_EVERY_FLAGS32, enum fv_objects,
			     UA_OPTIONAL),
	UVERBS_ATTR_FLAGS_IN(FV_ATTR_EVERY_FLAGS64, enum fv_objects,
			     UA_OPTIONAL),
	UVERBS_ATTR_ENUM_IN(FV_ATTR_EVERY_ENUM, enum_specs, UA_OPTIONAL),
	UVERBS_ATTR_RAW_FD(FV_ATTR_EVERY_RAW_FD, UA_OPTIONAL),
	UVERBS_ATTR_FD(FV_ATTR_EVERY_FD, FV_OBJECT_STREAM, UVERBS_ACCESS_READ,
		       UA_OPTIONAL),
	UVERBS_ATTR_IDR(FV_ATTR_EVERY_ANY, UVERBS_IDR_ANY_OBJECT,
			UVERBS_ACCESS_READ, UA_OPTIONAL),
	UVERBS_ATTR_IDRS_ARR(FV_ATTR_EVERY_THINGS, FV_OBJECT_THING,
			     UVERBS_ACCESS_READ, 1, 4, UA_OPTIONAL),
	UVERBS_ATTR_PTR_OUT(FV_ATTR_EVERY_OUT_U64, UVERBS_ATTR_TYPE(u64),
			    UA_OPTIONAL),
	UVERBS_ATTR_PTR_OUT(FV_ATTR_EVERY_OUT_STRUCT,
			    UVERBS_ATTR_STRUCT(struct fv_three, third),
			    UA_OPTIONAL),
	UVERBS_ATTR_PTR_OUT(FV_ATTR_EVERY_OUT_BYTES, UVERBS_ATTR_MIN_SIZE(0),
			    UA_OPTIONAL),
	UVERBS_ATTR_UHW());

DECLARE_UVERBS_NAMED_OBJECT(FV_OBJECT_THING,
			    UVERBS_TYPE_ALLOC_IDR(destroy_thing),
			    &UVERBS_METHOD(FV_METHOD_THING_CREATE),
			    &UVERBS_METHOD(FV_METHOD_THING_DESTROY),
			    NULL,
			    &UVERBS_METHOD(FV_METHOD_THING_READ),
			    &UVERBS_METHOD(FV_METHOD_THING_WRITE),
			    &UVERBS_METHOD(FV_METHOD_THING_EVERY_KIND),
			    &UVERBS_METHOD(FV_METHOD_THING_ANY));

DECLARE_UVERBS_NAMED_METHOD(
	FV_METHOD_STREAM_ALLOC,
	UVERBS_ATTR_FD(FV_ATTR_STREAM_HANDLE, FV_OBJECT_STREAM,
		       UVERBS_ACCESS_NEW, UA_MANDATORY));

DECLARE_UVERBS_NAMED_METHOD(
	FV_METHOD_STREAM_PUSH,
	UVERBS_ATTR_FD(FV_ATTR_STREAM_HANDLE, FV_OBJECT_STREAM,
		       UVERBS_ACCESS_READ, UA_MANDATORY),
	UVERBS_ATTR_PTR_IN(FV_ATTR_STREAM_VALUE, UVERBS_ATTR_TYPE(u64),
			   UA_MANDATORY));

DECLARE_UVERBS_NAMED_OBJECT(FV_OBJECT_STREAM,
			    UVERBS_TYPE_ALLOC_FD(sizeof(struct fv_stream),
						 destroy_stream, &stream_fops,
						 "[fakeverbs]",
						 O_RDONLY | O_CLOEXEC),
			    &UVERBS_METHOD(FV_METHOD_STREAM_ALLOC),
			    &UVERBS_METHOD(FV_METHOD_STREAM_PUSH));

DECLARE_UVERBS_NAMED_METHOD(FV_METHOD_HIDDEN_PING,
			    UVERBS_ATTR_PTR_IN(FV_ATTR_THING_VALUE,
					       UVERBS_ATTR_TYPE(u64),
					       UA_OPTIONAL));

DECLARE_UVERBS_GLOBAL_METHODS(FV_OBJECT_HIDDEN,
			      &UVERBS_METHOD(FV_METHOD_HIDDEN_PING));

DECLARE_UVERBS_NAMED_METHOD(
	FV_METHOD_ACTION_CREATE,
	UVERBS_ATTR_IDR(FV_ATTR_ACTION_HANDLE, UVERBS_OBJECT_FLOW_ACTION,
			UVERBS_ACCESS_NEW, UA_MANDATORY),
	UVERBS_ATTR_PTR_OUT(FV_ATTR_ACTION_ID, UVERBS_ATTR_TYPE(u32),
			    UA_MANDATORY));

ADD_UVERBS_METHODS(action_methods, UVERBS_OBJECT_FLOW_ACTION,
		   &UVERBS_METHOD(FV_METHOD_ACTION_CREATE));

ADD_UVERBS_ATTRIBUTES_SIMPLE(
	cq_attrs, UVERBS_OBJECT_CQ, UVERBS_METHOD_CQ_CREATE,
	UVERBS_ATTR_PTR_IN(FV_ATTR_CQ_IN, UVERBS_ATTR_TYPE(u64), UA_OPTIONAL),
	NULL,
	UVERBS_ATTR_PTR_OUT(FV_ATTR_CQ_OUT, UVERBS_ATTR_TYPE(u64),
			    UA_OPTIONAL));

ADD_UVERBS_ATTRIBUTES_SIMPLE(
	qp_attrs, UVERBS_OBJECT_QP, UVERBS_METHOD_QP_CREATE,
	UVERBS_ATTR_PTR_IN(FV_ATTR_QP_IN, UVERBS_ATTR_TYPE(u64), UA_OPTIONAL),
	UVERBS_ATTR_PTR_OUT(FV_ATTR_QP_OUT, UVERBS_ATTR_TYPE(u64),
			    UA_OPTIONAL));

ADD_UVERBS_ATTRIBUTES_SIMPLE(
	dm_attrs, UVERBS_OBJECT_DM, UVERBS_METHOD_DM_ALLOC,
	UVERBS_ATTR_PTR_IN(FV_ATTR_DM_IN, UVERBS_ATTR_TYPE(u64), UA_OPTIONAL),
	UVERBS_ATTR_PTR_OUT(FV_ATTR_DM_OUT, UVERBS_ATTR_TYPE(u64),
			    UA_OPTIONAL));

#ifdef RDMA_HAS_COMP_CNTR
ADD_UVERBS_ATTRIBUTES_SIMPLE(
	comp_cntr_attrs, UVERBS_OBJECT_COMP_CNTR,
	UVERBS_METHOD_COMP_CNTR_CREATE,
	UVERBS_ATTR_PTR_IN(FV_ATTR_COMP_CNTR_IN, UVERBS_ATTR_TYPE(u64),
			   UA_OPTIONAL),
	UVERBS_ATTR_PTR_OUT(FV_ATTR_COMP_CNTR_OUT, UVERBS_ATTR_TYPE(u64),
			    UA_OPTIONAL));
#endif

ADD_UVERBS_ATTRIBUTES_SIMPLE(
	query_context_attrs, UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_CONTEXT,
	UVERBS_ATTR_PTR_OUT(FV_ATTR_QUERY_CONTEXT_ID, UVERBS_ATTR_TYPE(u32),
			    UA_OPTIONAL));

/* An attribute that the core has already. */
ADD_UVERBS_ATTRIBUTES_SIMPLE(
	twice, UVERBS_OBJECT_MR, UVERBS_METHOD_QUERY_MR,
	UVERBS_ATTR_PTR_OUT(UVERBS_ATTR_QUERY_MR_RESP_LKEY,
			    UVERBS_ATTR_TYPE(u32), UA_OPTIONAL));

static bool never(struct ib_device *device)
{
	return false;
}

static const struct uapi_definition more_defs[] = {
	UAPI_DEF_CHAIN_OBJ_TREE(UVERBS_OBJECT_FLOW_ACTION, &action_methods),
	UAPI_DEF_CHAIN_OBJ_TREE(UVERBS_OBJECT_CQ, &cq_attrs),
	UAPI_DEF_CHAIN_OBJ_TREE(UVERBS_OBJECT_QP, &qp_attrs),
	UAPI_DEF_CHAIN_OBJ_TREE(UVERBS_OBJECT_DM, &dm_attrs),
#ifdef RDMA_HAS_COMP_CNTR
	UAPI_DEF_CHAIN_OBJ_TREE(UVERBS_OBJECT_COMP_CNTR, &comp_cntr_attrs),
#endif
	UAPI_DEF_CHAIN_OBJ_TREE(UVERBS_OBJECT_DEVICE, &query_context_attrs),
	{},
};

const struct uapi_definition fv_defs[] = {
	UAPI_DEF_CHAIN(more_defs),
	UAPI_DEF_CHAIN_OBJ_TREE_NAMED(FV_OBJECT_THING),
	UAPI_DEF_CHAIN_OBJ_TREE_NAMED(FV_OBJECT_STREAM,
				      UAPI_DEF_OBJ_NEEDS_FN(alloc_pd)),
	UAPI_DEF_CHAIN_OBJ_TREE_NAMED(FV_OBJECT_HIDDEN,
				      UAPI_DEF_IS_OBJ_SUPPORTED(never)),
	{},
};

const struct uapi_definition fv_wrong_defs[] = {
	UAPI_DEF_CHAIN(fv_defs),
	UAPI_DEF_CHAIN_OBJ_TREE(UVERBS_OBJECT_MR, &twice),
	{},
};
