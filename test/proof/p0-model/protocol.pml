/*
 * The protocol of an operation in lease execution that makes one outbound call: two owners, a rescuer, a reconciler,
 * a client that comes last, and a provider that keeps its own count. Any step may be the last one of its process.
 *
 * Switches (spin -D…):
 *   FENCE    the owner's writes name its attempt; without it they look at the state alone
 *   UNKNOWN  a lease that ends after a call was started makes the record unknown; without it the key is freed
 *   DEDUP    the provider answers a key that it has seen as it did the first time
 *   CLOSE    the provider can close a key for good, or say that it has been used
 *   REOPEN   what was closed is called again under the key of the next generation
 * and mistakes that must be found:
 *   NOT_FOUND_FREES   a look-up that finds nothing frees the key
 *   SAME_KEY          what was closed is called again under the same key
 *   IGNORE_ANSWER     the generation is raised whatever closing says
 *   NO_HOLD           an owner answers with its own result before its completion is confirmed
 */

#ifndef OWNERS
#define OWNERS 2
#endif
#ifndef TRIES
#define TRIES 2
#endif
#ifndef CRASHES
#define CRASHES 2
#endif
#ifndef LEASE_ENDS
#define LEASE_ENDS 3
#endif
#define GENERATIONS 4

mtype = { absent, in_progress, retryable, unknown, completed, failed };

mtype state = absent;
byte attempt = 0;
bool leased = false;
bool started = false;     /* a call was started, and what came of it is not known */
bool finished = false;    /* the result of the call is stored */
byte generation = 0;

/* The provider. */
bool seen[GENERATIONS];
bool closed[GENERATIONS];
byte effects = 0;

byte crashes = 0;
byte lease_ends = 0;
byte running = OWNERS;
bool lasting = false;     /* the last client's own attempt is under way */

/* Which attempt's answer callers were given; 0: nobody was given one. */
byte told = 0;
byte stored = 0;

#define may_crash if :: skip :: crashes < CRASHES -> crashes++; goto gone fi

#ifdef FENCE
#define holds (state == in_progress && attempt == mine && leased)
#else
#define holds (state == in_progress)
#endif

inline tell(answer) {
  assert(told == 0 || told == answer);   /* everybody hears the same answer */
  told = answer;
}

inline owner_body() {
  atomic {
    if
    :: state == absent || state == retryable ->
      state = in_progress; attempt++; mine = attempt; leased = true
    :: state == completed -> tell(stored); goto gone
    :: else -> goto over
    fi
  }
  may_crash;
  /* The call is marked as started, under the fence, before it is sent. */
  atomic {
    if
    :: !holds -> goto over
    :: holds && finished -> goto complete
    :: holds && !finished -> started = true; at = generation
    fi
  }
  may_crash;
  /* It may be frozen here for as long as it likes: nothing keeps the send from coming late. */
  atomic {
    if
    :: closed[at] -> refused = true
#ifdef DEDUP
    :: !closed[at] && seen[at] -> refused = false
    :: !closed[at] && !seen[at] -> effects++; seen[at] = true; refused = false
#else
    :: !closed[at] -> effects++; seen[at] = true; refused = false
#endif
    fi
    assert(effects <= 1)                 /* it happens at most once */
  }
  may_crash;
  if
  :: refused ->
    atomic {
      if
      :: holds -> state = unknown; leased = false
      :: else
      fi
    }
    goto over
  :: !refused
  fi;
complete:
#ifdef NO_HOLD
  tell(mine);
#endif
  atomic {
    if
    :: !holds -> goto over
    :: holds ->
      assert(attempt == mine);           /* a stale owner cannot complete */
      state = completed; leased = false; started = false; finished = true; stored = mine
    fi
  }
  may_crash;
  tell(mine)
}

proctype Owner() {
  byte mine, at, tries;
  bool refused;
again:
  tries++;
  owner_body();
  goto gone;
over:
  if
  :: tries < TRIES -> goto again
  :: skip
  fi;
gone:
  atomic { running-- }
}

/* Time: a lease ends while its owner does whatever it does. */
proctype Time() {
end:
  do
  :: atomic { lease_ends < LEASE_ENDS && leased -> leased = false; lease_ends++ }
  :: atomic { running == 0 && !lasting && leased -> leased = false }
  od
}

inline rescue() {
#ifdef UNKNOWN
  if
  :: started -> state = unknown
  :: else -> state = retryable
  fi
#else
  state = retryable
#endif
}

proctype Rescuer() {
end:
  do
  :: atomic { state == in_progress && !leased -> rescue() }
  od
}

proctype Reconciler() {
  byte judged, at;
  bool used;
end:
  do
  :: atomic { state == unknown && started && !finished -> judged = attempt; at = generation };
    /* What the other side says, in one step there. */
    atomic {
      used = seen[at];
#ifdef CLOSE
      if
      :: !used -> closed[at] = true
      :: else
      fi
#endif
    };
    /* Settled later, if the record is still what was judged. */
    atomic {
      if
      :: state == unknown && attempt == judged && generation == at ->
        if
#ifdef IGNORE_ANSWER
        :: at + 1 < GENERATIONS -> generation++; started = false; state = retryable
        :: else -> state = failed
#else
        :: used -> finished = true; started = false; state = retryable
#ifdef DEDUP
        :: !used -> started = false; state = retryable
#else
#ifdef CLOSE
#ifdef SAME_KEY
        :: !used -> started = false; state = retryable
#else
#ifdef REOPEN
        :: !used && at + 1 < GENERATIONS -> generation++; started = false; state = retryable
        :: !used && at + 1 >= GENERATIONS -> state = failed
#else
        :: !used -> state = failed
#endif
#endif
#else
#ifdef NOT_FOUND_FREES
        :: !used -> started = false; state = retryable
#else
        :: !used -> goto person          /* it stays unknown; a person decides */
#endif
#endif
#endif
#endif
        fi
      :: else
      fi
    }
  od;
person:
  skip
}

/* The client that tries until something final is there, when all faults are over. */
proctype Last() {
  byte mine, at;
  bool refused;
  byte rounds;
  running == 0;
again:
  lasting = false;
  state != in_progress;
  if
  :: state == completed -> tell(stored); goto gone
  :: state == failed -> goto gone
#if defined(DEDUP) || defined(CLOSE)
  :: state == unknown -> state != unknown; goto again
#else
  :: state == unknown -> goto gone
#endif
  :: state == absent || state == retryable
  fi;
  rounds++;
  lasting = true;
  assert(rounds <= LEASE_ENDS + GENERATIONS + 1);  /* it comes to an end */
  owner_body();
over:
  goto again;
gone:
  skip
}

init {
  byte n;
  atomic {
    do
    :: n < OWNERS -> run Owner(); n++
    :: else -> break
    od;
    run Time(); run Rescuer(); run Reconciler(); run Last()
  }
}
