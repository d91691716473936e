-- The hot transactions as one round trip each. Every function ends with a version: a worker of the previous release
-- goes on calling its own until it is replaced. `p_now` is NULL outside tests. A VOLATILE function at READ COMMITTED
-- takes a new snapshot for each of its statements; the protocol relies on that ("a later statement" below).
-- What workers call plans its statements with the indexes only, however small or empty a table was when a session first
-- did: a plan is kept, and one that reads a table from its beginning walks through every dead row until a vacuum comes.

-- The job that a group would run next: its first due one by (priority, queue_at, seq) whose site is not running elsewhere
-- and still belongs to the group. What is past its `expires_at` is never taken (rule J1), nor what
-- is inside its quiet window (rule S6). The first look is one index probe; only a blocked head costs the longer search.
CREATE OR REPLACE FUNCTION rl_head_v3(p_key text, p_now timestamptz) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE v_job text; v_elsewhere boolean; v_blocked boolean;
BEGIN
    -- asked only of groups without a running job: one of their sites that runs does so in the group it came from (rule R2)
    SELECT h.job_id,
        EXISTS (SELECT 1 FROM sites s JOIN jobs r ON r.site_code = s.site_code AND r.status = 'running'
                WHERE s.group_key = p_key),
        -- no EXISTS: the planner might answer it from a hash of the whole table
        coalesce((SELECT true FROM jobs r WHERE r.site_code = h.site_code AND r.status = 'running' LIMIT 1),
                 (SELECT true FROM sites s WHERE s.site_code = h.site_code AND s.group_key <> p_key LIMIT 1))
    INTO v_job, v_elsewhere, v_blocked
    FROM (
        SELECT j.job_id, j.site_code FROM jobs j
        WHERE j.group_key = p_key AND j.status = 'queued' AND (j.run_after IS NULL OR j.run_after <= p_now)
          AND (j.expires_at IS NULL OR j.expires_at > p_now)
          AND (j.hold_from IS NULL OR p_now < j.hold_from OR p_now >= j.hold_until)
        ORDER BY j.priority, j.queue_at, j.seq LIMIT 1
    ) h;
    IF v_elsewhere THEN RETURN NULL; END IF;
    IF v_blocked IS NOT TRUE THEN RETURN v_job; END IF;
    SELECT j.job_id INTO v_job FROM jobs j
    WHERE j.group_key = p_key AND j.status = 'queued' AND (j.run_after IS NULL OR j.run_after <= p_now)
      AND (j.expires_at IS NULL OR j.expires_at > p_now)
      AND (j.hold_from IS NULL OR p_now < j.hold_from OR p_now >= j.hold_until)
      AND NOT EXISTS (SELECT 1 FROM jobs r WHERE r.site_code = j.site_code AND r.status = 'running')
      AND NOT EXISTS (SELECT 1 FROM sites s WHERE s.site_code = j.site_code AND s.group_key <> p_key)
    ORDER BY j.priority, j.queue_at, j.seq LIMIT 1;
    RETURN v_job;
END $$;

-- The earliest moment at which a queued job of a group may be taken; NULL while a job runs or nothing is queued. With
-- `p_keep` a group that was ready keeps its moment.
CREATE OR REPLACE FUNCTION rl_ready_v3(p_key text, p_now timestamptz, p_keep boolean) RETURNS timestamptz
LANGUAGE plpgsql AS $$
DECLARE v_first timestamptz; v_held timestamptz; v_ready timestamptz;
BEGIN
    SELECT CASE WHEN EXISTS (SELECT 1 FROM jobs r WHERE r.group_key = p_key AND r.status = 'running') THEN NULL
                WHEN EXISTS (SELECT 1 FROM jobs j
                             WHERE j.group_key = p_key AND j.status = 'queued' AND j.run_after IS NULL) THEN '-infinity'
                ELSE (SELECT j.run_after FROM jobs j WHERE j.group_key = p_key AND j.status = 'queued'
                      ORDER BY j.run_after LIMIT 1) END,
        greatest(g.pause_until, g.operator_pause_until, g.next_request_at,
                 (SELECT f.operator_pause_until FROM fleet f WHERE f.id = 1)),
        CASE WHEN p_keep THEN g.ready_at END
    INTO v_first, v_held, v_ready FROM rate_groups g WHERE g.key = p_key;
    IF v_first IS NULL THEN RETURN NULL; END IF;
    v_first := greatest(v_first, v_held);
    IF v_first > p_now THEN RETURN v_first; END IF;
    IF rl_head_v3(p_key, p_now) IS NULL THEN
        IF NOT EXISTS (
            SELECT 1 FROM jobs j
            WHERE j.group_key = p_key AND j.status = 'queued' AND (j.run_after IS NULL OR j.run_after <= p_now)
              AND (j.expires_at IS NULL OR j.expires_at > p_now)
              AND (j.hold_from IS NULL OR p_now < j.hold_from OR p_now >= j.hold_until)
        ) THEN
            -- what is due is inside its quiet window: the lane opens with its end, or when another job comes due
            SELECT min(CASE WHEN j.hold_from <= p_now AND j.hold_until > p_now THEN greatest(j.run_after, j.hold_until)
                            ELSE j.run_after END) INTO v_first
            FROM jobs j
            WHERE j.group_key = p_key AND j.status = 'queued' AND (j.expires_at IS NULL OR j.expires_at > p_now);
            IF v_first > p_now THEN RETURN v_first; END IF;
        END IF;
        -- a busy site, or what has expired, tells nobody when it is over
        RETURN p_now + interval '1 second';
    END IF;
    -- a group that was ready keeps its moment, so that age orders the groups (rule R5)
    RETURN CASE WHEN v_ready <= p_now THEN v_ready ELSE p_now END;
END $$;

-- Recompute `ready_at` of groups that the caller has locked; returns how many changed.
CREATE OR REPLACE FUNCTION rl_refresh_v3(p_keys text[], p_now timestamptz) RETURNS integer
LANGUAGE plpgsql SET enable_seqscan = off AS $$
DECLARE v_key text; v_ready timestamptz; v_changed integer := 0;
BEGIN
    FOREACH v_key IN ARRAY p_keys LOOP
        v_ready := rl_ready_v3(v_key, p_now, true);
        UPDATE rate_groups g SET ready_at = v_ready WHERE g.key = v_key AND g.ready_at IS DISTINCT FROM v_ready;
        IF FOUND THEN v_changed := v_changed + 1; END IF;
    END LOOP;
    RETURN v_changed;
END $$;

-- Fold what submits left behind into the groups' rows. It waits for nobody and looks at no job; rows of a group that
-- somebody holds stay for the next fold. A group that is ready keeps its moment. Each statement goes by key: joined in one,
-- a plan from when the tables were empty compares everything with everything.
CREATE OR REPLACE FUNCTION rl_fold_v1(p_limit integer, p_now timestamptz) RETURNS integer
LANGUAGE plpgsql SET enable_seqscan = off AS $$
DECLARE v_now timestamptz := coalesce(p_now, clock_timestamp()); v_folded integer := 0;
    v_ids bigint[]; v_keys text[]; v_held text[]; v_key text; v_at timestamptz;
BEGIN
    SELECT array_agg(w.id), array_agg(DISTINCT w.group_key) INTO v_ids, v_keys FROM (
        SELECT id, group_key FROM lane_wake ORDER BY id LIMIT p_limit FOR UPDATE SKIP LOCKED) w;
    SELECT array_agg(h.key) INTO v_held FROM (
        SELECT key FROM rate_groups WHERE key = ANY (v_keys) ORDER BY key FOR NO KEY UPDATE SKIP LOCKED) h;
    FOR v_key, v_at IN
        WITH gone AS (
            DELETE FROM lane_wake WHERE id = ANY (v_ids)
                AND (cardinality(v_held) = cardinality(v_keys) OR group_key = ANY (v_held))
            RETURNING group_key, at
        ) SELECT group_key, min(at) FROM gone GROUP BY group_key
    LOOP
        UPDATE rate_groups g SET ready_at = CASE WHEN g.ready_at <= v_now THEN g.ready_at
            ELSE least(coalesce(g.ready_at, 'infinity'::timestamptz), v_at) END WHERE g.key = v_key;
        v_folded := v_folded + 1;
    END LOOP;
    RETURN v_folded;
END $$;

-- Take the head of a group that the caller has locked: no running row, no pause, no interval in the way. Every statement
-- has a snapshot of its own: whatever was claimed, run and settled before the lock is seen. No row if there is none.
-- With `p_busy`, the seconds for which its body may be silent, the attempt has begun: at the very moment of its claim.
-- Why it waited stays in its row, in case it is handed back.
CREATE OR REPLACE FUNCTION rl_take_v4(
    p_key text, p_worker text, p_boot text, p_lease double precision, p_busy double precision, p_now timestamptz
) RETURNS SETOF jobs
LANGUAGE plpgsql AS $$
DECLARE v_job jobs%ROWTYPE; v_head text;
BEGIN
    IF EXISTS (
        SELECT 1 FROM rate_groups g
        WHERE g.key = p_key AND (
            EXISTS (SELECT 1 FROM jobs r WHERE r.group_key = p_key AND r.status = 'running')
            OR greatest(g.pause_until, g.operator_pause_until, g.next_request_at,
                        (SELECT f.operator_pause_until FROM fleet f WHERE f.id = 1)) > p_now)
    ) THEN RETURN; END IF;
    v_head := rl_head_v3(p_key, p_now);
    IF v_head IS NULL THEN RETURN; END IF;
    UPDATE jobs j SET status = 'running', attempt = j.attempt + 1, worker = p_worker, boot_id = p_boot,
        claim_no = (SELECT g.claim_no + 1 FROM rate_groups g WHERE g.key = p_key),
        claimed_at = p_now, started_at = CASE WHEN p_busy IS NOT NULL THEN p_now END, updated_at = p_now,
        busy_until = p_now + make_interval(secs => p_busy), park_requested = false,
        lease_until = p_now + make_interval(secs => p_lease), last_response_at = NULL
    WHERE j.job_id = v_head AND j.status = 'queued' RETURNING j.* INTO v_job;
    IF NOT FOUND THEN RETURN; END IF;
    UPDATE rate_groups g SET claim_no = v_job.claim_no, ready_at = NULL WHERE g.key = p_key;
    INSERT INTO attempts (job_id, attempt, group_key, site_code, worker, boot_id, source, claimed_at, from_page,
                          last_completed_page)
    VALUES (v_job.job_id, v_job.attempt, p_key, v_job.site_code, p_worker, p_boot,
            CASE WHEN v_job.wait_reason = 'cooldown' THEN 'retry' ELSE v_job.source END, p_now,
            v_job.last_completed_page, v_job.last_completed_page);
    RETURN NEXT v_job;
END $$;

-- Lock ready groups, take the head of each, refresh what was locked. One transaction. Every row tells how many groups
-- were locked; the last one has no job but says in how many seconds the next lane becomes ready.
CREATE OR REPLACE FUNCTION rl_claim_v3(
    p_slots integer, p_worker text, p_boot text, p_lease double precision, p_lanes text[], p_now timestamptz
) RETURNS TABLE (o_locked integer, o_job_id text, o_attempt integer, o_claim_no bigint, o_group text, o_kind text,
                 o_target text, o_due double precision)
LANGUAGE plpgsql SET enable_seqscan = off AS $$
DECLARE v_now timestamptz := coalesce(p_now, clock_timestamp()); v_keys text[]; v_key text; v_job jobs%ROWTYPE;
BEGIN
    SELECT array_agg(x.key) INTO v_keys FROM (
        SELECT g.key FROM rate_groups g
        WHERE g.ready_at <= v_now AND (p_lanes IS NULL OR g.key ~ ANY (p_lanes))
        ORDER BY g.ready_at LIMIT p_slots FOR NO KEY UPDATE SKIP LOCKED
    ) x;
    o_locked := coalesce(cardinality(v_keys), 0);
    FOREACH v_key IN ARRAY coalesce(v_keys, '{}') LOOP
        SELECT * INTO v_job FROM rl_take_v4(v_key, p_worker, p_boot, p_lease, NULL, v_now);
        CONTINUE WHEN NOT FOUND;
        o_job_id := v_job.job_id; o_attempt := v_job.attempt; o_claim_no := v_job.claim_no; o_group := v_key;
        o_kind := v_job.kind; o_target := v_job.target_code;
        v_keys := array_remove(v_keys, v_key);
        RETURN NEXT;
    END LOOP;

    -- what was taken is running and has no moment; the others get theirs from what is really there
    IF cardinality(v_keys) > 0 THEN PERFORM rl_refresh_v3(v_keys, v_now); END IF;
    o_job_id := NULL; o_attempt := NULL; o_claim_no := NULL; o_group := NULL; o_kind := NULL; o_target := NULL;
    SELECT extract(epoch FROM g.ready_at - v_now) INTO o_due FROM rate_groups g
    WHERE g.ready_at IS NOT NULL AND (p_lanes IS NULL OR g.key ~ ANY (p_lanes)) ORDER BY g.ready_at LIMIT 1;
    RETURN NEXT;
END $$;

-- What a body has to know of a job that has begun at `p_now`.
CREATE OR REPLACE FUNCTION rl_begun_v1(p_job jobs, p_now timestamptz) RETURNS jsonb
LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN (SELECT jsonb_build_object(
        'site_code', p_job.site_code, 'source', p_job.source, 'force', p_job.force, 'options', p_job.options,
        'failures', p_job.failures, 'max_attempts', p_job.max_attempts, 'recoveries', p_job.recoveries,
        'recoveries_row', p_job.recoveries_row, 'cooldown_retries', p_job.cooldown_retries,
        'cooldown_row', p_job.cooldown_row, 'deadlines', p_job.deadlines, 'deadlines_row', p_job.deadlines_row,
        'js_challenges', p_job.js_challenges, 'row_page', p_job.row_page, 'error_msg', p_job.error_msg,
        'resume_from_page', p_job.resume_from_page, 'last_completed_page', p_job.last_completed_page,
        'checkpoint', p_job.checkpoint, 'progress', p_job.progress, 'deadline_sec', p_job.deadline_sec,
        'lease_sec', extract(epoch FROM p_job.lease_until - p_now),
        'wait_sec', extract(epoch FROM g.next_request_at - p_now),
        'since_response_sec', extract(epoch FROM p_now - g.last_response_at),
        'crawl_delay_sec', g.crawl_delay_sec, 'last_interval_sec', g.last_interval_sec,
        'usual_latency_sec', g.usual_latency_sec)
    FROM rate_groups g WHERE g.key = p_job.group_key);
END $$;

-- End a running attempt: group first, then job and attempt, then what the group may do next. Returns the state that
-- the job moved to, NULL if the attempt is no longer current (nothing was written). With `p_boot` the worker's freed slot
-- goes on at once with the head of the group that has been ready longest (rule R5), unless a submit may have made
-- another one ready: then a fold has to come first. With `p_busy` what was taken has begun, and `o_begun` is what its body
-- starts with: what `running.START` would answer.
CREATE OR REPLACE FUNCTION rl_settle_v4(
    p_job text, p_attempt integer, p_group text, p jsonb, p_refresh boolean, p_worker text, p_boot text,
    p_lease double precision, p_lanes text[], p_busy double precision, p_now timestamptz
) RETURNS TABLE (o_status text, o_job_id text, o_attempt integer, o_claim_no bigint, o_group text, o_kind text,
                 o_target text, o_begun jsonb)
LANGUAGE plpgsql SET enable_seqscan = off AS $$
DECLARE v_now timestamptz; v_job jobs%ROWTYPE; v_responded timestamptz; v_next timestamptz; v_started timestamptz;
    v_taken jobs%ROWTYPE; v_key text; v_ready timestamptz;
    v_home text;
BEGIN
    -- a site that moved meanwhile has another home: both rows are written below, so both are locked, in key order
    PERFORM 1 FROM rate_groups WHERE key = ANY (ARRAY[p_group, (
        SELECT s.group_key FROM jobs j JOIN sites s ON s.site_code = j.site_code
        WHERE j.job_id = p_job AND s.group_key <> p_group AND left(p_group, 1) <> '_')]) ORDER BY key FOR NO KEY UPDATE;
    v_now := coalesce(p_now, clock_timestamp());
    IF p->>'status' = 'queued' THEN
        SELECT started_at INTO v_started FROM jobs WHERE job_id = p_job AND attempt = p_attempt FOR NO KEY UPDATE;
    END IF;
    v_responded := v_now - make_interval(secs => (p->>'response_age')::double precision);
    UPDATE jobs j SET
        -- a stop request wins over going on (rule C6); a body that returned first is done (rule J10)
        status = CASE WHEN j.stop_requested AND p->>'status' = 'queued' THEN 'cancelled' ELSE p->>'status' END,
        finished_at = CASE WHEN p->>'status' <> 'queued' OR j.stop_requested THEN v_now END,
        lease_until = NULL, busy_until = NULL, stop_requested = false,
        park_requested = false, updated_at = v_now,
        started_at = CASE WHEN p->>'status' = 'queued' AND NOT j.stop_requested THEN NULL ELSE j.started_at END,
        run_after = CASE WHEN p->>'status' = 'queued' AND NOT j.stop_requested
            THEN v_now + make_interval(secs => (p->>'delay')::double precision) ELSE j.run_after END,
        queue_at = CASE WHEN (p->>'to_back')::boolean THEN v_now ELSE j.queue_at END,
        failures = (p->>'failures')::integer,
        recoveries = (p->>'recoveries')::integer, recoveries_row = (p->>'recoveries_row')::integer,
        cooldown_retries = (p->>'cooldown_retries')::integer, cooldown_row = (p->>'cooldown_row')::integer,
        deadlines = (p->>'deadlines')::integer, deadlines_row = (p->>'deadlines_row')::integer,
        js_challenges = (p->>'js_challenges')::integer, row_page = (p->>'row_page')::integer,
        error_msg = CASE WHEN j.stop_requested AND p->>'status' = 'queued' THEN 'cancelled' ELSE p->>'error' END,
        result = CASE WHEN p ? 'result' THEN p->'result' ELSE j.result END,
        outcome = CASE WHEN p->>'status' = 'done' THEN p->>'outcome' END,
        wait_reason = CASE WHEN p->>'status' = 'queued' AND NOT j.stop_requested THEN p->>'wait_reason' ELSE '' END,
        last_completed_page = CASE WHEN (p->>'restart')::boolean THEN j.resume_from_page ELSE j.last_completed_page END,
        checkpoint = CASE WHEN (p->>'restart')::boolean THEN NULL ELSE j.checkpoint END,
        cooldown_seen = NULL,
        last_response_at = coalesce(v_responded, j.last_response_at),
        last_interval_sec = coalesce((p->>'response_interval')::double precision, j.last_interval_sec)
    WHERE j.job_id = p_job AND j.attempt = p_attempt AND j.status = 'running'
      -- the reaper takes only the lease that it saw expired: one that was renewed since is alive
      AND (NOT p ? 'lease_was' OR j.lease_until <= (p->>'lease_was')::timestamptz)
    RETURNING j.* INTO v_job;
    IF NOT FOUND THEN RETURN NEXT; RETURN; END IF;
    UPDATE attempts SET finished_at = coalesce((p->>'ended_at')::timestamptz, v_now),
        started_at = coalesce(v_started, v_job.started_at), error = p->>'error',
        outcome = CASE WHEN v_job.status = 'cancelled' THEN 'cancelled' ELSE p->>'why' END,
        traceback = p->>'traceback', evidence = p->'evidence', last_completed_page = v_job.last_completed_page
    WHERE job_id = p_job AND attempt = p_attempt;
    -- a site that moved meanwhile takes its job, and the pace of its hosts, along into its present group (rule R2)
    SELECT s.group_key INTO v_home FROM sites s
    WHERE s.site_code = v_job.site_code AND s.group_key <> v_job.group_key AND left(v_job.group_key, 1) <> '_';
    IF v_home IS NOT NULL AND v_job.status = 'queued' THEN
        UPDATE jobs SET group_key = v_home WHERE job_id = p_job;
        INSERT INTO lane_wake (group_key, at) VALUES (v_home, coalesce(v_job.run_after, v_now));
    END IF;
    v_next := (p->>'not_before')::timestamptz;
    IF v_job.last_response_at IS NOT NULL OR v_next IS NOT NULL THEN
        -- a lost attempt may have had a response until its recorded end: the next target's own interval counts from there
        UPDATE rate_groups g SET last_response_at = greatest(
                g.last_response_at, v_job.last_response_at,
                CASE WHEN v_next IS NOT NULL THEN (p->>'ended_at')::timestamptz END),
            last_interval_sec = coalesce(v_job.last_interval_sec, g.last_interval_sec),
            next_request_at = greatest(g.next_request_at, v_next, v_job.last_response_at
                + make_interval(secs => greatest(v_job.last_interval_sec, g.crawl_delay_sec)))
        WHERE g.key IN (v_job.group_key, v_home);
    END IF;
    IF NOT p_refresh THEN
        -- the lane was occupied until now: what was folded meanwhile makes it no older than the others (rule R5)
        UPDATE rate_groups SET ready_at = NULL WHERE key = v_job.group_key AND ready_at IS NOT NULL;
    ELSE
        -- by id, as a fold would read them: rows that were folded and are not vacuumed yet cost nothing there
        IF p_boot IS NOT NULL AND NOT EXISTS (
            SELECT 1 FROM (SELECT w.at FROM lane_wake w ORDER BY w.id LIMIT 1000) w WHERE w.at <= v_now
        ) THEN
            -- out of key order, but it waits for nobody; this lane was occupied until now, so the others have waited longer
            SELECT g.key INTO v_key FROM rate_groups g
            WHERE g.ready_at <= v_now AND g.key <> v_job.group_key AND (p_lanes IS NULL OR g.key ~ ANY (p_lanes))
            ORDER BY g.ready_at LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED;
            IF FOUND THEN
                SELECT * INTO v_taken FROM rl_take_v4(v_key, p_worker, p_boot, p_lease, p_busy, v_now);
                IF NOT FOUND THEN PERFORM rl_refresh_v3(ARRAY[v_key], v_now); END IF;
            ELSIF p_lanes IS NULL OR v_job.group_key ~ ANY (p_lanes) THEN
                SELECT * INTO v_taken FROM rl_take_v4(v_job.group_key, p_worker, p_boot, p_lease, p_busy, v_now);
            END IF;
        END IF;
        -- a lane that has gone on has no moment; for the others in a later statement: a submit that committed while this one
        -- waited for the group is seen
        IF v_taken.group_key IS DISTINCT FROM v_job.group_key THEN
            v_ready := rl_ready_v3(v_job.group_key, v_now, false);
            UPDATE rate_groups SET ready_at = v_ready WHERE key = v_job.group_key AND ready_at IS DISTINCT FROM v_ready;
        END IF;
    END IF;
    o_status := v_job.status; o_job_id := v_taken.job_id; o_attempt := v_taken.attempt;
    o_claim_no := v_taken.claim_no; o_group := v_taken.group_key; o_kind := v_taken.kind; o_target := v_taken.target_code;
    IF v_taken.started_at IS NOT NULL THEN o_begun := rl_begun_v1(v_taken, v_now); END IF;
    RETURN NEXT;
END $$;

-- Renew exactly the pairs that a process holds; rows that are locked just now are told apart from rows that are lost.
CREATE OR REPLACE FUNCTION rl_renew_v1(
    p_jobs text[], p_attempts integer[], p_lease double precision, p_stall double precision, p_now timestamptz
) RETURNS TABLE (o_job_id text, o_attempt integer, o_answer text, o_remaining double precision, o_started boolean)
LANGUAGE plpgsql SET enable_seqscan = off AS $$
DECLARE v_now timestamptz := coalesce(p_now, clock_timestamp());
BEGIN
    RETURN QUERY
    WITH held AS (
        SELECT u.job_id, u.attempt FROM unnest(p_jobs, p_attempts) AS u(job_id, attempt)
    ), free AS (
        SELECT j.job_id, j.attempt FROM jobs j JOIN held h ON h.job_id = j.job_id AND h.attempt = j.attempt
        WHERE j.status = 'running' AND (j.busy_until IS NULL OR j.busy_until + make_interval(secs => p_stall) > v_now)
        ORDER BY j.job_id FOR NO KEY UPDATE OF j SKIP LOCKED
    ), renewed AS (
        UPDATE jobs j SET lease_until = v_now + make_interval(secs => p_lease) FROM free f
        WHERE j.job_id = f.job_id AND j.attempt = f.attempt AND j.status = 'running'
        RETURNING j.job_id, j.attempt, j.started_at IS NOT NULL AS started
    ), mine AS (
        SELECT j.job_id, j.attempt, j.lease_until, j.started_at,
               (j.busy_until IS NOT NULL AND j.busy_until + make_interval(secs => p_stall) <= v_now) AS stalled
        FROM jobs j JOIN held h ON h.job_id = j.job_id AND h.attempt = j.attempt WHERE j.status = 'running'
    )
    SELECT h.job_id, h.attempt,
           CASE WHEN r.job_id IS NOT NULL THEN 'renewed' WHEN m.stalled THEN 'stalled'
                WHEN m.job_id IS NOT NULL THEN 'locked' ELSE 'lost' END,
           CASE WHEN r.job_id IS NOT NULL THEN p_lease
                ELSE extract(epoch FROM m.lease_until - v_now)::double precision END,
           coalesce(r.started, m.started_at IS NOT NULL, false)
    FROM held h
    LEFT JOIN renewed r ON r.job_id = h.job_id AND r.attempt = h.attempt
    LEFT JOIN mine m ON m.job_id = h.job_id AND m.attempt = h.attempt;
END $$;
