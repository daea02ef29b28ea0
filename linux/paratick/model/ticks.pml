/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Paratick: the tick of one CPU of a guest, as kernel/time/tick-virtual.c and the hooks in
 * tick-sched.c have it. Functions here are named as there. What is modelled: a tick that is kept,
 * stopped, virtual, withdrawn; entry into idle, in the steps between which other CPUs can act, and
 * its end; a pinned timer of the wheel, queued here and from afar; RCU's wish for ticks; other
 * timers, whose interrupts the host takes for ticks; CPU hotplug; withdrawal before another kernel;
 * hosts that cease to give ticks, and then refuse a declaration, ignore it, or hold it in vain.
 *
 * Time goes by in halves of a period. At each first half the host's ticks are due and jiffies
 * begin. Interrupts take no time. Left out: where in a period jiffies begin, other CPUs' timers, and
 * that a CPU is descheduled.
 *
 * The promise:
 *   late     a timer of the wheel fires within a jiffy after it is due;
 *   tickless a CPU that runs has the work of a tick in each period, and so has one that is idle and
 *            that RCU needs;
 *   blind    if the host ceases to give ticks, a CPU notices before it has run for three watches. Of
 *            this time alone the other two say nothing. A host that holds the declaration in vain
 *            is noticed by a CPU that neither sleeps nor has other timers for so long;
 *   stray    one that is offline, or has ticks of its own, is given none.
 */
#define PERIOD 2
#define WATCH (2 * PERIOD)
#define NONE 255
#define LONGEST 4	/* a timer of the wheel is queued for so many halves at most */

mtype = { RUNS, ENTERS, DECIDED, HALTED, OFFLINE }
mtype = { GIVES, REFUSES, IGNORES, HOLDS }	/* what a host does with declarations */

mtype at = RUNS;
mtype host = GIVES;

/* The guest's own. */
bool virtual, stopped, base_idle, resched;
byte armed = NONE;	/* the tick's timer: halves until it fires */
byte next_tick;		/* what it was programmed for, by its time; 0: unknown */
byte stop_for;		/* what the idle loop has decided to stop for */
bool due = true;	/* the work of the tick of this period is not done */
bool seen;		/* a tick of the host came since the last look */
byte since_look;
byte overdue;		/* a tick was due so long ago on a CPU that did not sleep */

/* The host's. */
bool msr, pending;	/* declared, a tick is about to come */

/* The world's. */
byte wheel = NONE;	/* halves until the timer is due */
byte late, since, blind;
bool ipi, rcu, first;	/* first: this is the first half of a period */

#define RUNNING (at == RUNS || at == ENTERS || at == DECIDED)
#define INIDLE (at == ENTERS || at == DECIDED || at == HALTED)
#define GIVEN (msr && host == GIVES)

inline arm(when)	/* tick_virtual_arm(): this soon, or sooner */
{
#ifdef FAULT_ARM_NOT_SOONER
	if :: armed == NONE -> armed = when :: else fi
#else
	if :: armed > when -> armed = when :: else fi
#endif
}

inline timer_softirq()
{
	if :: wheel == 0 -> wheel = NONE; late = 0; resched = true :: else fi
}

inline forget()		/* what a blind CPU is late with */
{
	if :: blind -> since = 0; late = 0 :: else fi;
	if :: host == HOLDS -> blind = 0 :: else fi
}

inline work()		/* tick_sched_work(), of a tick that is due */
{
	since = 0;
	due = false;
	rcu = false;
	overdue = 0;
	if :: host == HOLDS -> blind = 0 :: else fi;
	timer_softirq()
}

inline declare(done)
{
	msr = (host != REFUSES);
#ifdef FAULT_NO_READ_BACK
	done = (host != REFUSES)
#else
	done = (host == GIVES || host == HOLDS)
#endif
}

/* To the next beginning of a jiffy. */
#define JIFFY (first -> PERIOD : PERIOD - 1)

inline start()
{
	declare(ok);
#ifdef FAULT_START_UNASKED
	ok = true;
#endif
	if
	:: ok -> virtual = true; seen = true; since_look = WATCH / 2; arm(JIFFY)
	:: else -> armed = JIFFY
	fi
}

inline cease()		/* tick_virtual_end() */
{
	virtual = false;
	seen = false;
	since_look = 0;
	overdue = 0;
	forget();
#ifndef FAULT_NEXT_TICK_LEFT
	next_tick = 0
#endif
}

inline stop()
{
	if
	:: virtual ->
#ifndef FAULT_NOT_WITHDRAWN
		msr = false;
		pending = false;
#endif
		cease();
		if
#ifdef FAULT_STOP_UNARMED
		:: skip
#else
		:: !stopped -> arm(JIFFY)
		:: stopped
#endif
		fi
	:: else
	fi
}

/* tick_virtual_timer_interrupt(): any timer's interrupt does the work of a tick that is due. */
inline timer_interrupt()
{
#ifdef FAULT_TAKEN_UNDONE
	skip
#else
	if
	:: virtual && due && first && (!INIDLE || resched) -> work()
#ifdef FAULT_IDLE_DROPPED
	:: virtual && due && first && INIDLE && !resched -> due = false
#endif
	:: else
	fi
#endif
}

inline alive(yes)
{
#ifdef FAULT_NO_LOOK
	yes = true
#else
	if
	:: since_look < WATCH / 2 -> yes = true
	:: else ->
		since_look = 0;
		if
		:: seen -> yes = true
		:: !seen && msr && host != IGNORES ->
#ifdef FAULT_NEVER_OWED
			yes = true
#else
			yes = (INIDLE || overdue < WATCH / 2)
#endif
		:: else -> declare(yes)
		fi;
		seen = false
	fi
#endif
}

/* The tick's timer fired. */
inline tick()
{
	armed = NONE;
	ok = true;
#ifdef FAULT_LOOK_RUNNING_ONLY
	if :: virtual && !INIDLE -> alive(ok) :: else fi;
#else
	if :: virtual -> alive(ok) :: else fi;
#endif
	if
	:: !virtual ->
		work();
		next_tick = 0;
		if :: !stopped -> armed = JIFFY :: else fi
	:: virtual && !ok ->
		cease();
		work();
#ifdef FAULT_CEASED_AT_WATCH
		if :: !stopped -> armed = WATCH :: else fi
#else
		if :: !stopped -> armed = JIFFY :: else fi
#endif
	:: virtual && ok && INIDLE ->
#ifdef FAULT_IDLE_DROPPED
		if :: due -> work() :: else fi;
#else
		work();
#endif
		if :: !stopped -> armed = WATCH :: else fi
	:: virtual && ok && !INIDLE ->
		timer_softirq();
		timer_interrupt();
		armed = WATCH
	fi
}

/* tick_nohz_idle_exit() */
inline wake()
{
#ifdef FAULT_WAKE_UNARMED
	if :: virtual -> skip
#else
	if :: virtual -> arm(WATCH)
#endif
	   :: !virtual && stopped -> armed = JIFFY
	   :: else
	fi;
	next_tick = 0;
	stopped = false;
	base_idle = false;
	resched = false;
	since = 0;
	due = false;
	overdue = 0;
	at = RUNS
}

/* tick_nohz_next_event() and tick_nohz_stop_tick(): without other CPUs' steps between, by a lock. */
inline decide()
{
#ifdef FAULT_RCU_IGNORED
	if
	:: false
#else
	if
	:: rcu && !stopped -> stop_for = 0
#endif
	:: !rcu && wheel != NONE && wheel <= PERIOD && !stopped -> stop_for = 0
	:: else ->
		stop_for = (wheel == 0 -> 1 : wheel);
#ifndef FAULT_IDLE_UNLOCKED
		base_idle = true
#endif
	fi
}

inline program()
{
	if
	:: stop_for == 0 ->		/* tick_virtual_retain() */
#ifdef FAULT_KEPT_UNARMED
		skip
#else
#ifdef FAULT_FOUR_TICKS
		if :: virtual -> arm(JIFFY + 3 * PERIOD) :: else fi
#else
		if :: virtual -> arm(JIFFY) :: else fi
#endif
#endif
	:: stop_for != 0 ->
#ifdef FAULT_IDLE_UNLOCKED
		base_idle = true;
#endif
		if
#ifdef FAULT_SLEEP_UNCHANGED
		:: virtual && stopped && next_tick == stop_for -> skip
		:: virtual && !(stopped && next_tick == stop_for) ->
#else
		:: virtual ->
#endif
			if :: stop_for != NONE -> arm(stop_for) :: else fi;
			next_tick = stop_for
		:: !virtual && stopped && next_tick == stop_for -> skip
		:: else -> armed = stop_for; next_tick = stop_for
		fi;
		stopped = true
	fi
}

/* Half a period goes by. Interrupts of the last have come. */
inline pass()
{
	first = !first;
	if :: armed != NONE -> armed-- :: else fi;
	if :: next_tick != NONE && next_tick > 0 -> next_tick-- :: else fi;
	if
	:: wheel != NONE && wheel > 0 -> wheel--
	:: wheel == 0 -> late++
	:: else
	fi;
	if :: virtual && since_look < WATCH / 2 -> since_look++ :: else fi;
	if :: virtual && due && RUNNING && overdue < WATCH / 2 -> overdue++ :: else fi;
	if
	:: first ->
		due = true;
		pending = GIVEN && RUNNING
	:: else
	fi;
	if :: RUNNING || (at == HALTED && rcu) -> since++ :: else since = 0 fi;
	if
	:: virtual && !GIVEN && RUNNING -> blind++
	:: virtual && !GIVEN && !RUNNING && host != HOLDS
	:: else -> blind = 0
	fi;
	assert(blind <= 3 * WATCH);			/* blind */
	assert(late <= PERIOD || blind);		/* late */
	assert(since <= PERIOD || blind);		/* tickless */
	assert(!msr || host != GIVES || virtual)	/* stray */
}

init {
	bool ok;

	start();
end:	do
	/* Interrupts, in any order. */
	:: d_step { armed == 0 && at != OFFLINE ->
		if
		:: pending && first && host == GIVES -> pending = false	/* taken for the tick */
		:: else
		fi;
		tick();
		if :: at == DECIDED || at == HALTED -> at = ENTERS :: else fi;
		if :: at == ENTERS && resched -> wake() :: else resched = false fi }
	:: d_step { pending && at != OFFLINE ->
		pending = false;
		if :: virtual -> seen = true; if :: due -> work() :: else fi :: else fi;
		resched = resched && at != RUNS }
	:: d_step { ipi -> ipi = false;
		if :: at == HALTED || at == DECIDED || at == ENTERS -> at = ENTERS
		   :: else
		fi }
	/* Another timer's; the host takes it for a tick that is due. */
	:: d_step { at == RUNS && armed != 0 ->
		if :: first && host == GIVES -> pending = false :: else fi;
		timer_interrupt();
		resched = false }
	:: d_step { at == HALTED -> timer_interrupt(); at = ENTERS }
	/* What the CPU does. */
	:: d_step { at == RUNS && armed != 0 && !pending -> at = ENTERS }
	:: d_step { at == RUNS && wheel == NONE -> wheel = 1 }
	:: d_step { at == RUNS && wheel == NONE -> wheel = LONGEST }
	:: d_step { at == RUNS && !rcu -> rcu = true; since = 0 }
	:: d_step { at == ENTERS && armed != 0 && !pending && !ipi -> decide(); at = DECIDED }
	:: d_step { at == DECIDED && armed != 0 && !pending -> program(); forget(); stop_for = 0; at = HALTED }
	:: d_step { at == HALTED && armed != 0 && !ipi -> wake() }
	/* From afar. */
	:: d_step { wheel == NONE && at != OFFLINE && !ipi -> wheel = LONGEST - 1;
#ifndef FAULT_NO_IPI
		ipi = base_idle
#endif
		}
	:: d_step { at == RUNS && !pending && armed != 0 && wheel == NONE ->	/* hotplug */
		stop();
		armed = NONE;
		virtual = false;
		at = OFFLINE }
	:: d_step { at == OFFLINE -> at = RUNS; since = 0; due = first; start() }
	:: d_step { at != OFFLINE && virtual && armed != 0 && !pending && !ipi ->	/* another kernel */
		stop();
		if :: at == HALTED || at == DECIDED -> at = ENTERS :: else fi }
	:: d_step { host == GIVES && !pending -> host = REFUSES; msr = false }
	:: d_step { host == GIVES && !pending -> host = IGNORES; msr = false }
	:: d_step { host == GIVES && !pending -> host = HOLDS }
	:: d_step { armed != 0 && !pending && !ipi && (at == RUNS || at == HALTED || at == OFFLINE) ->
		pass() }
	od
}
