/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Input of bindgen for ib_core only: the private headers of the core's modules. The allow
 * list in core/Kbuild selects the items that bindgen emits.
 */
#include "core_priv.h"
#include "restrack.h"
#include <rdma/rdma_cm.h>
#include "cma_priv.h"
#include "uverbs.h"
#include "rdma_core.h"
#include "../mad/trace.h"
#include <linux/hmm.h>
#include <linux/hmm-dma.h>
#include <linux/dim.h>
#include <linux/irq_poll.h>
#include <linux/security.h>
