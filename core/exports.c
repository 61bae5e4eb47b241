// SPDX-License-Identifier: GPL-2.0
/*
 * What Rust cannot say: exports of its functions, module parameters with
 * permissions, variadic functions. No logic.
 */
#include <linux/export.h>
#include <linux/module.h>
#include <rdma/ib_verbs.h>
#include "core_priv.h"
#include "restrack.h"

/* device */

/* gid, cache */

/* verbs, cgroup */

/* restrack, nldev */

/* sysfs, stats */

/* umem */

/* uverbs */
