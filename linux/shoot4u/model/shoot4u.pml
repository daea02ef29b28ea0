/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Shoot4U: a model of the protocol for Spin.
 *
 * What is modelled: pCPUs with a TLB tagged by vCPU, vCPUs that are preempted and migrated wherever
 * KVM lets them, speculative fills while in guest mode, hypercalls of several initiators at once,
 * requests and vcpu->mode with their memory order, interrupts to pCPUs, instructions that KVM
 * emulates. One step here is one access to shared state there; what runs with nobody able to tell
 * the difference is joined. The functions named below are those of arch/x86/kvm/shoot4u*.c and of
 * vcpu_enter_guest() in arch/x86/kvm/x86.c.
 *
 * What is left out: nested guests, hotplug, PCIDs, page sizes but for LARGE, the checking of the
 * hypercall's arguments, and translations evicted from the TLB for want of room, as keeping them is
 * worse.
 *
 * With SVM a vCPU has a new tag when it enters on another pCPU than it entered last, not when it is
 * loaded there, and each flush waits for the VMRUN and is of everything; else it is VMX.
 *
 * A caller's stores to the page tables may be seen late: until a barrier, a locked instruction, or
 * any time before. With two callers each store is seen at once.
 *
 * Chosen by -D, see ./check: VCPUS, PCPUS, CALLERS, QUEUE, SVM, LARGE, FAULT_..., LIVENESS.
 */
#ifdef GUEST
#include "guest.pml"
#else
#ifndef VCPUS
#define VCPUS	2
#endif
#ifndef PCPUS
#define PCPUS	2
#endif
#ifndef CALLERS
#define CALLERS	2		/* vCPUs 0 to CALLERS - 1 each make a call */
#endif
#ifndef QUEUE
#define QUEUE	1		/* ranges that wait for a vCPU; one more, and everything goes */
#endif
#if defined(LARGE) && !defined(PAGES)
#define PAGES	2
#endif
#ifndef PAGES
#define PAGES	1
#endif

#define NOWHERE	PCPUS		/* vcpu->cpu == -1; not loaded */
#define NOBODY	VCPUS
#define EMPTY	3		/* no entry in the TLB; below it, versions of the page table entry */

#define OUTSIDE	0
#define IN	1
#define EXITING	2

#if PAGES > 1
/* Pages that a caller revokes: the first caller both, others the last. */
#define RANGE(i)	((i) == 0 -> 3 : 2)
#else
#define RANGE(i)	1
#endif
#define BIT(n)		(1 << (n))
#define ENTRY(p, v, g)	tlb[((p) * VCPUS + (v)) * PAGES + (g)]
#define OLDEST(v, g)	oldest[(v) * PAGES + (g)]

/* The guest: its page table, and the oldest version that each vCPU may still use. */
byte pt[PAGES];
byte oldest[VCPUS * PAGES];
byte tlb[PCPUS * VCPUS * PAGES];

/* Scheduling: where a vCPU is loaded, and who is on a pCPU. */
byte on[VCPUS];
byte owner[PCPUS];
byte cpu[VCPUS];		/* vcpu->cpu; loaded_vmcs->cpu, but while loading */
bit loading[VCPUS];		/* in vcpu_load(), before the store to vcpu->cpu */
#ifdef SVM
byte ran[VCPUS];		/* vmcb01.cpu: where it entered last */
bit flush_next[VCPUS];		/* everything goes by the next VMRUN */
#endif
bit fixed[VCPUS];		/* preemption is off */
bit irqs_off[VCPUS];
bit in_guest[VCPUS];

/* What vCPUs tell each other. */
byte mode[VCPUS];
bit req_flush[VCPUS];		/* KVM_REQ_TLB_FLUSH */
bit req_shoot4u[VCPUS];		/* KVM_REQ_SHOOT4U */
byte queued[VCPUS];
byte queue[VCPUS];		/* pages of all queued ranges */
bit whole[VCPUS];
bit translating[VCPUS];
bit revoked[VCPUS];		/* arch.shoot4u.revoked differs from revoked_at_entry */

/* A call: the pCPUs that have yet to take its interrupt, by initiator. */
byte ipi[PCPUS];
bit in_call[VCPUS];

/* The caller's stores to the page tables that others do not see yet. */
#if CALLERS == 1
bit late_pt;
#define STORE_PT	late_pt = 1
#define DRAIN_PT \
	if :: late_pt -> late_pt = 0; WRITE_PT(0) :: else fi
#else
#define STORE_PT	WRITE_PT(me)
#define DRAIN_PT	skip
#endif
#if PAGES > 1
#define WRITE_PT(i) \
	if :: RANGE(i) & 1 -> pt[0] = pt[0] + 1 :: else fi; \
	pt[1] = pt[1] + 1
#else
#define WRITE_PT(i)	pt[0] = pt[0] + 1
#endif
/* The barrier at the head of shoot4u_aim(), and the locked instructions behind it. */
#ifdef FAULT_NO_BARRIER_INITIATOR
#define AIM_BARRIER	skip
#else
#define AIM_BARRIER	DRAIN_PT
#endif

#if defined(FAULT_NO_BARRIER) || defined(FAULT_NO_BARRIER_EMULATION)
/* Stores that the vCPU's pCPU has not let go of. */
bit late_mode[VCPUS];
bit late_translating[VCPUS];
#endif

#define LOADED(v)	(on[v] < PCPUS && !loading[v])
/* An interrupt goes before the next instruction, where interrupts are on. */
#define RUNS(v)		(LOADED(v) && (irqs_off[v] || ipi[on[v]] == 0))

#if PAGES > 1
#define DROP(p, v, pages) \
	if :: (pages) & 1 -> ENTRY(p, v, 0) = EMPTY :: else fi; \
	if :: (pages) & 2 -> ENTRY(p, v, 1) = EMPTY :: else fi
#else
#define DROP(p, v, pages) \
	if :: (pages) & 1 -> ENTRY(p, v, 0) = EMPTY :: else fi
#endif

#ifdef FAULT_WRONG_VPID
#define TAG(v)		(((v) + 1) % VCPUS)
#else
#define TAG(v)		(v)
#endif
#ifdef FAULT_SHORT_RANGE
#define CUT(pages)	((pages) & 1)		/* leaves out the last of two pages */
#else
#define CUT(pages)	(pages)
#endif

/*
 * shoot4u_flush_here(); everything is never cut short. With LARGE the two pages are one large page of
 * the guest, which the host backs by small ones, so that the TLB has an entry for each: an
 * instruction that names one address takes one of them, and the kernel takes the whole context.
 */
#define FLUSH_WHOLE(p, v)	DROP(p, TAG(v), 3)
#if defined(LARGE) && defined(FAULT_ONE_PER_STRIDE)
#define FLUSH_HERE(p, v, pages)	DROP(p, TAG(v), (pages) & 1)
#elif defined(LARGE)
#define FLUSH_HERE(p, v, pages)	FLUSH_WHOLE(p, v)
#else
#define FLUSH_HERE(p, v, pages)	DROP(p, TAG(v), CUT(pages))
#endif

/* A vCPU that nobody's call is for may cache what it likes. */
#define IS_TARGET(v)	(CALLERS > 1 || (v) > 0)

/* No page of a vCPU in guest mode may be older than what completed calls left valid. */
#define VALID(v, g) \
	(!in_guest[v] || ENTRY(on[v], v, g) == EMPTY || ENTRY(on[v], v, g) >= OLDEST(v, g))

#if PAGES > 1
#define ASSERT_VALID(v)	assert(VALID(v, 0)); assert(VALID(v, 1))
#else
#define ASSERT_VALID(v)	assert(VALID(v, 0))
#endif

/* The scheduler of the host. It owes no vCPU anything: one may stay descheduled for ever. */
#define PREEMPT(v) \
	:: d_step { v < VCPUS && LOADED(v) && !fixed[v] -> owner[on[v]] = NOBODY; on[v] = NOWHERE }
#define FINISH_LOAD(v) \
	:: d_step { v < VCPUS && loading[v] -> cpu[v] = on[v]; loading[v] = 0 }
#if defined(SVM)
#define MOVED(v, p)	0
#elif defined(FAULT_SKIP_MIGRATED)
#define MOVED(v, p)	(cpu[v] == NOWHERE)
#else
#define MOVED(v, p)	(cpu[v] != p)	/* vmx_vcpu_load_vmcs() */
#endif

/*
 * kvm_shoot4u_serve(). On SVM a flush where the vCPU is loaded would miss the entries of one that has
 * not entered there.
 */
#if defined(SVM) && !defined(FAULT_ASID_AT_LOAD)
#define SERVE(v, pages)	flush_next[v] = 1
#else
#define SERVE(v, pages) \
	if \
	:: (pages) & 4 -> FLUSH_WHOLE(on[v], v) \
	:: else -> FLUSH_HERE(on[v], v, pages) \
	fi
#endif

/* pre_svm_run(), and the VMRUN. */
#ifdef SVM
#define ENTER(v) \
	if \
	:: ran[v] != on[v] || flush_next[v] -> DROP(on[v], v, 3) \
	:: else \
	fi; \
	ran[v] = on[v]; \
	flush_next[v] = 0; \
	in_guest[v] = 1
#else
#define ENTER(v)	in_guest[v] = 1
#endif
#define LOAD(v, p) \
	:: d_step { \
		v < VCPUS && p < PCPUS && on[v] == NOWHERE && owner[p] == NOBODY -> \
		owner[p] = v; \
		on[v] = p; \
		loading[v] = 1; \
		if :: MOVED(v, p) -> req_flush[v] = 1 :: else fi \
	}

proctype scheduler()
{
end:
	do
	PREEMPT(0)
	PREEMPT(1)
	FINISH_LOAD(0)
	FINISH_LOAD(1)
	LOAD(0, 0)
	LOAD(0, 1)
	LOAD(1, 0)
	LOAD(1, 1)
#if VCPUS > 2
	PREEMPT(2)
	FINISH_LOAD(2)
	LOAD(2, 0)
	LOAD(2, 1)
#endif
#if PCPUS > 2
	LOAD(0, 2)
	LOAD(1, 2)
#if VCPUS > 2
	LOAD(2, 2)
#endif
#endif
	od
}

/* The interrupts of a pCPU, which do nothing: taken in the host, where nobody has turned them off. */
#define ANSWER(p, i) \
	:: d_step { \
		(ipi[p] & BIT(i)) && (owner[p] == NOBODY || !irqs_off[owner[p]]) -> \
		ipi[p] = ipi[p] & ~BIT(i) \
	}

proctype pcpu(byte p)
{
end:
	do
	ANSWER(p, 0)
#if CALLERS > 1
	ANSWER(p, 1)
#endif
	od
}

#if CALLERS == 1
proctype page_tables()
{
end:
	do
	:: d_step { late_pt -> DRAIN_PT }
	od
}
#endif

#if defined(FAULT_NO_BARRIER) || defined(FAULT_NO_BARRIER_EMULATION)
/* Without a barrier a store is seen by others at some time, before the next one of its pCPU. */
proctype store_buffer(byte v)
{
end:
	do
	:: d_step { late_mode[v] -> late_mode[v] = 0; mode[v] = IN }
	:: d_step { late_translating[v] -> late_translating[v] = 0; translating[v] = 1 }
	od
}
#endif

#ifdef FAULT_NO_BARRIER
#define STORE_MODE_IN	late_mode[me] = 1
#define DRAIN_MODE	late_mode[me] = 0
#else
#define STORE_MODE_IN	mode[me] = IN
#define DRAIN_MODE	skip
#endif
#ifdef FAULT_NO_BARRIER_EMULATION
#define STORE_TRANSLATING	late_translating[me] = 1
#define DRAIN_TRANSLATING	late_translating[me] = 0
#else
#define STORE_TRANSLATING	translating[me] = 1
#define DRAIN_TRANSLATING	skip
#endif
#ifdef FAULT_IGNORE_EMULATION
#define TRANSLATES(t)	0
#else
#define TRANSLATES(t)	(translating[t])
#endif

/* kvm_shoot4u_emulated(): what was translated has been used. */
#define EMULATED	DRAIN_TRANSLATING; translating[me] = 0
#ifdef FAULT_LOWER_EARLY
#define BEFORE_USE	EMULATED
#else
#define BEFORE_USE	skip
#endif

#define LEAVE_GUEST \
	in_guest[me] = 0; DRAIN_MODE; mode[me] = OUTSIDE; irqs_off[me] = 0; fixed[me] = 0
#ifdef COUNT_FIRST
#define MAY_QUEUE(t)	(!TRANSLATES(t))
#else
#define MAY_QUEUE(t)	1
#endif
/* One vCPU that emulates is enough: the others are what it is to them. */
#ifdef NO_EMULATION
#define EMULATES(v)	0
#else
#define EMULATES(v)	((v) == VCPUS - 1)
#endif
#define FAULT(g) \
	:: d_step { \
		EMULATES(me) -> \
		page = g; \
		version = (ENTRY(on[me], me, g) == EMPTY -> pt[g] : ENTRY(on[me], me, g)); \
		LEAVE_GUEST \
	}; goto fault
#define WALK(g) \
	:: d_step { EMULATES(me) -> page = g; LEAVE_GUEST }; goto walk
/* A kicked vCPU has left the guest when nobody sees it on its way any more. */
#define HAS_LEFT(t)	(!(kicked & BIT(t)) || mode[t] != EXITING)
#if VCPUS > 2
#define ALL_LEFT	(HAS_LEFT(0) && HAS_LEFT(1) && HAS_LEFT(2))
#else
#define ALL_LEFT	(HAS_LEFT(0) && HAS_LEFT(1))
#endif
#ifdef FAULT_WAIT_FOR_VCPU
#define SERVICE_AWAITED(i)	(req_shoot4u[FIRST_TARGET(i)])
#else
#define SERVICE_AWAITED(i)	0
#endif
#define FIRST_TARGET(i)	((i) == 0 -> 1 : 0)
#define NEXT_TARGET(t)	((t) + 1 == me -> (t) + 2 : (t) + 1)
#define AGREE(t, g) \
	if \
	:: (RANGE(me) & BIT(g)) && !(left & BIT(t)) && OLDEST(t, g) < mine[g] -> \
		OLDEST(t, g) = mine[g] \
	:: else \
	fi; \
	assert(VALID(t, g))
#if PAGES > 1
#define AGREE_ALL(t)	AGREE(t, 0); AGREE(t, 1)
#else
#define AGREE_ALL(t)	AGREE(t, 0)
#endif

proctype vcpu(byte me)
{
	byte version, page;	/* of an address that KVM has translated */
	byte work;		/* pages to invalidate */
	byte t, to, where, left, kicked;
	byte mine[PAGES];	/* what a call leaves valid */
	bit called;
	bit fast, asked;	/* the call by the fast path; somebody wanted the vCPU to leave before */

host:	/* vcpu_enter_guest(): requests, then the last look with interrupts off */
end:
	do
	:: d_step { RUNS(me) && req_flush[me] -> req_flush[me] = 0 };
		d_step { RUNS(me) -> FLUSH_WHOLE(on[me], me) }
	:: d_step {		/* kvm_shoot4u_serve() */
			RUNS(me) && !req_flush[me] && req_shoot4u[me] ->
			req_shoot4u[me] = 0;
			work = (whole[me] -> 7 : queue[me]);
			whole[me] = 0;
			queued[me] = 0;
			queue[me] = 0
		};
		d_step {
			RUNS(me) ->
			SERVE(me, work);
			work = 0
		}
	:: d_step {		/* kvm_shoot4u_entering() */
			RUNS(me) && !req_flush[me] && !req_shoot4u[me] ->
			fixed[me] = 1;
			irqs_off[me] = 1;
			revoked[me] = 0;
			EMULATED
		};
		goto enter
	od;

enter:
	STORE_MODE_IN;
	if
	:: d_step {
			req_flush[me] || req_shoot4u[me] || mode[me] == EXITING ->
			LEAVE_GUEST
		};
		goto host
	:: d_step {
			!req_flush[me] && !req_shoot4u[me] && mode[me] != EXITING ->
			ENTER(me);
			ASSERT_VALID(me)
		}
	fi;

guest:	/* An exit may come at any time; an interrupt forces one. */
	do
	:: d_step {
			IS_TARGET(me) && ipi[on[me]] == 0 && ENTRY(on[me], me, 0) == EMPTY ->
			ENTRY(on[me], me, 0) = pt[0]
		}
#if PAGES > 1
	:: d_step {
			IS_TARGET(me) && ipi[on[me]] == 0 && ENTRY(on[me], me, 1) == EMPTY ->
			ENTRY(on[me], me, 1) = pt[1]
		}
#endif
	:: d_step { LEAVE_GUEST };
		goto host
	:: d_step {		/* the page table is changed, and the hypercall made */
			me < CALLERS && !called && ipi[on[me]] == 0 ->
			called = 1;
			mine[0] = pt[0] + (RANGE(me) & 1);
#if PAGES > 1
			mine[1] = pt[1] + 1;
#endif
			STORE_PT;
			in_guest[me] = 0
		};
		if
		:: d_step { LEAVE_GUEST };
			goto call
		:: d_step {		/* kvm_shoot4u_fastpath(), interrupts off */
				fast = 1;
				DRAIN_MODE;
				asked = (mode[me] == EXITING);
#ifndef FAULT_WAIT_IN_GUEST_MODE
				mode[me] = OUTSIDE;
#endif
			};
			goto call
		fi
	FAULT(0)
	WALK(0)
#if PAGES > 1
	FAULT(1)
	WALK(1)
#endif
	od;

fault:	/* an EPT violation or misconfiguration: the CPU has translated the address */
	if
	:: d_step { RUNS(me) -> STORE_TRANSLATING }	/* kvm_shoot4u_translating() */
	fi;
	if
#ifdef FAULT_GIVE_UP
	/* The guest runs the instruction again, and is put off by the next call. */
	:: d_step { RUNS(me) && revoked[me] -> assert(false) }
#else
	:: d_step { RUNS(me) && revoked[me] -> version = 0 };
		goto look
#endif
	:: d_step { RUNS(me) && !revoked[me] -> BEFORE_USE };
		goto use
	fi;

walk:	/* another instruction that KVM emulates: it walks the guest's page table itself */
	if
	:: d_step { RUNS(me) -> STORE_TRANSLATING }
	fi;
look:
	if
	:: d_step { RUNS(me) -> version = pt[page]; BEFORE_USE }
	fi;
use:
	if
	:: d_step { RUNS(me) -> assert(version >= OLDEST(me, page)); version = 0; page = 0 }
	fi;
	d_step { RUNS(me) -> EMULATED };
	goto host;

call:	/* kvm_shoot4u_carry_out(), preemption off; interrupts on, but by the fast path */
	if
	:: d_step { RUNS(me) -> fixed[me] = 1; in_call[me] = 1; t = FIRST_TARGET(me) }
	fi;
	do	/* shoot4u_aim() */
	:: t >= VCPUS -> break
	:: t < VCPUS ->
#ifdef COUNT_FIRST
		d_step { RUNS(me) -> revoked[t] = 1 };
#endif
		d_step { RUNS(me) -> AIM_BARRIER; where = cpu[t] };
		if
#ifdef COUNT_FIRST
		:: d_step { RUNS(me) && TRANSLATES(t) -> left = left | BIT(t) }
#endif
		:: d_step { RUNS(me) && where == NOWHERE -> skip }	/* never ran */
		:: d_step {		/* shoot4u_queue() */
				RUNS(me) && where < PCPUS && MAY_QUEUE(t) ->
				DRAIN_PT;
				if
				:: queued[t] == QUEUE -> whole[t] = 1
				:: else ->
					if
					:: !whole[t] ->
						queue[t] = queue[t] | RANGE(me);
						queued[t] = queued[t] + 1
					:: else
					fi
				fi
			};
#ifdef FAULT_DROP_REQUEST
			if
			:: d_step { RUNS(me) -> req_shoot4u[t] = 1 }
			:: d_step { RUNS(me) -> skip }
			fi;
#else
			d_step { RUNS(me) -> req_shoot4u[t] = 1 };
#endif
			if	/* kvm_vcpu_exiting_guest_mode() */
			:: d_step { RUNS(me) && mode[t] == OUTSIDE -> skip }
			:: d_step { RUNS(me) && mode[t] != OUTSIDE -> mode[t] = EXITING };
				d_step {
					RUNS(me) ->
					to = to | BIT(cpu[t]);
					kicked = kicked | BIT(t)
				}
			fi
		fi;
		d_step { where = 0; t = NEXT_TARGET(t) }
	od;
	if
	:: d_step {	/* shoot4u_interrupt() */
		RUNS(me) ->
#ifdef FAULT_SKIP_PCPU
		to = to & (to - 1);
		kicked = 0;
#endif
		if :: (to & 1) && on[me] != 0 -> ipi[0] = ipi[0] | BIT(me) :: else fi;
		if :: (to & 2) && on[me] != 1 -> ipi[1] = ipi[1] | BIT(me) :: else fi;
#if PCPUS > 2
		if :: (to & 4) && on[me] != 2 -> ipi[2] = ipi[2] | BIT(me) :: else fi;
#endif
		to = 0
	}
	fi;
	/* The only wait, in shoot4u_interrupt(): no vCPU that is not loaded is in it. */
	d_step {
		RUNS(me) && ALL_LEFT && !SERVICE_AWAITED(me) ->
		kicked = 0;
		t = FIRST_TARGET(me)
	};
#ifndef COUNT_FIRST
	do
	:: t >= VCPUS -> break
	:: t < VCPUS ->
		d_step { RUNS(me) -> DRAIN_PT; revoked[t] = 1 };
		d_step {
			RUNS(me) ->
			if :: TRANSLATES(t) -> left = left | BIT(t) :: else fi;
			t = NEXT_TARGET(t)
		}
	od;
#endif
	if	/* where the fast path cannot say who is left, the usual one makes the call again */
	:: d_step { fast && left != 0 -> fast = 0; asked = 0; left = 0; LEAVE_GUEST };
		goto call
	:: skip
	fi;
	if
	:: d_step {
		RUNS(me) ->
		t = FIRST_TARGET(me);
		do
		:: t >= VCPUS -> break
		:: t < VCPUS -> AGREE_ALL(t); t = NEXT_TARGET(t)
		od;
		mine[0] = 0;
#if PAGES > 1
		mine[1] = 0;
#endif
		t = 0;
		left = 0;
		in_call[me] = 0
	}
	fi;
	if
	:: d_step { !fast -> fixed[me] = 0 };
		goto host
	:: d_step { fast && asked -> fast = 0; asked = 0; LEAVE_GUEST };
		goto host
	:: d_step { fast && !asked -> fast = 0 };
		goto enter
	fi
}

init
{
	byte i;

	d_step {
		do
		:: i < VCPUS ->
			on[i] = NOWHERE;
			cpu[i] = NOWHERE;
#ifdef SVM
			ran[i] = NOWHERE;
#endif
			i++
		:: else -> break
		od;
		i = 0;
		do
		:: i < PCPUS -> owner[i] = NOBODY; i++
		:: else -> break
		od;
		i = 0;
		do
		:: i < PCPUS * VCPUS * PAGES -> tlb[i] = EMPTY; i++
		:: else -> break
		od;
		i = 0
	}
	atomic {
		run scheduler();
#if CALLERS == 1
		run page_tables();
#endif
		run pcpu(0);
		run pcpu(1);
#if PCPUS > 2
		run pcpu(2);
#endif
#if defined(FAULT_NO_BARRIER) || defined(FAULT_NO_BARRIER_EMULATION)
		run store_buffer(0);
		run store_buffer(1);
#if VCPUS > 2
		run store_buffer(2);
#endif
#endif
		run vcpu(0);
		run vcpu(1);
#if VCPUS > 2
		run vcpu(2);
#endif
	}
}

#ifdef LIVENESS
/* A call ends, whoever stays descheduled. */
ltl ends { [] (in_call[0] -> <> !in_call[0]) }
#endif
#endif /* GUEST */
