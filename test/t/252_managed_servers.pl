# docs/managed-servers.md: a publisher without outbox, a subscriber with it, made of the page's own statements. Each row is in the
# log exactly once and in the order of the commits over there, whatever is killed: the subscriber in the middle of the initial
# copy and of the stream, the apply worker, the walsender. Consumers get what the ledger says. What would be refused there is refused
# where the application sees it, or left out.
# matrix: C25
use strict;
use warnings;

use Outbox::Ledger;
use Outbox::Test;
use PostgreSQL::Test::Utils;
use Test::More;

my @blocks = slurp_file("$ENV{OUTBOX_TOP}/docs/managed-servers.md") =~ /^```sql\n(.*?)^```/msg;
my $redis = Outbox::Redis->start;
my $managed = new_node(name => 'managed', extension => 0,
	conf => "shared_preload_libraries = ''\nwal_level = logical\nmax_wal_senders = 10\nmax_replication_slots = 10\n");
my $own = new_node(name => 'own', extension => 0, conf => "wal_retrieve_retry_interval = 200ms\nmax_worker_processes = 24\noutbox.lone_emit = refuse\n");
my $connection = $managed->connstr('postgres') . ' user=postgres';

# The one block of the page that says this, for this test's addresses and otherwise word for word.
my %run;
sub block
{
	my ($words) = @_;
	my @found = grep { /$words/s } @blocks;
	is(scalar @found, 1, "the page has one block with $words");
	$run{ $found[0] } = 1;
	my $sql = $found[0];
	$sql =~ s/CONNECTION '[^']*'/"CONNECTION " . sql_literal($connection)/e;
	$sql =~ s/host 'redis', port '6379'/host '127.0.0.1', port '$redis->{port}'/;
	return $sql;
}
sub feed { return $managed->safe_psql('postgres', 'SELECT count(*) FROM outbox_feed') }
sub logged { return $own->safe_psql('postgres', 'SELECT count(*) FROM outbox_internal.log') }
sub all_logged { return wait_for_value($own, 'SELECT count(DISTINCT id) FROM outbox_internal.log', feed()) }

# --- the managed server, and what is there before anybody subscribes ---
$managed->safe_psql('postgres', block("CREATE PUBLICATION") =~ s/CREATE ROLE.*//sr . 'CREATE ROLE outbox_reader');
$managed->safe_psql('postgres', block('VALUES \(.order., .42.'));
$managed->safe_psql('postgres', block('CREATE FUNCTION outbox.emit'));
# The ledger's emit_text, as the page's emit.
$managed->safe_psql('postgres', q{CREATE FUNCTION outbox.emit_text(text, bigint, text, text) RETURNS void LANGUAGE sql
	AS 'INSERT INTO public.outbox_feed (aggregate_type, aggregate_id, event_type, payload_text, topic) VALUES ($1, $2::text, $3, $4, $1)'});
Outbox::Ledger::install($managed);
$managed->safe_psql('postgres', q{SELECT count(outbox.emit('early', n::text, 'made', jsonb_build_object('n', n))) FROM generate_series(1, 99) n});
is(feed(), 100, 'a hundred rows before there is a subscription');
foreach my $bad (q{'', '1', 't', '{}'}, q{'a', '1', 't', '"text"'}, q{'a', '1', 't', NULL}, qq{'a', '1', 't', to_jsonb(ARRAY[repeat('x', 1032193)])})
{
	my ($status) = $managed->psql('postgres', "INSERT INTO outbox_feed (aggregate_type, aggregate_id, event_type, payload) VALUES ($bad)");
	isnt($status, 0, 'refused where the application sees it: ' . substr $bad, 0, 30);
}
foreach my $bad ("headers => '[]'", q{headers => '{"n": 1}'}, q{headers => '{"": "x"}'}, q{headers => '{"a\\tb": "x"}'}, q{headers => '{"a\\u0085b": "x"}'}, q{headers => '{"a\\u2028b": "x"}'},
	q{headers => '{"Content-Type": "x"}'}, q{headers => '{"KEY": "x"}'}, q{headers => '{"outbox-replay": "x"}'}, q{headers => jsonb_build_object('a', repeat('x', 12288))},
	q{payload => 'null'}, q{topic => '..'}, q{deliver_at => now() + interval '11 years'}, q{deliver_at => 'infinity'})
{
	my ($status) = $managed->psql('postgres', "SELECT outbox.emit('a', '1', 't', $bad" . ($bad =~ /^payload/ ? ')' : ", payload => '{}')"));
	isnt($status, 0, "so is $bad");
}

# --- killed in the middle of the initial copy ---
$own->safe_psql('postgres', block('CREATE TRIGGER emit_feed'));
$own->safe_psql('postgres', q{
	CREATE FUNCTION hold() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN IF NEW.aggregate_id = ''50'' THEN PERFORM pg_advisory_xact_lock(1); END IF; RETURN NEW; END';
	CREATE TRIGGER a_hold BEFORE INSERT ON outbox_feed FOR EACH ROW EXECUTE FUNCTION hold();
	ALTER TABLE outbox_feed ENABLE ALWAYS TRIGGER a_hold});
my $holder = $own->background_psql('postgres', timeout => 600);
$holder->query_safe('SELECT pg_advisory_lock(1)');
my $subscribe = block('CREATE SUBSCRIPTION');
$own->safe_psql('postgres', $subscribe);
ok(wait_for_value($own, q{SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted}, 1), 'the initial copy is in the middle');
is(logged(), 0, 'nothing of it can be seen');
$own->stop('immediate');
eval { $holder->quit };
$own->start;
ok(all_logged(), 'after a crash it is done again');
is(logged(), 100, 'and each row is there once');

# --- the stream: in the order of commits, whatever is killed ---
ok(wait_for_value($own, "SELECT count(*) = 0 FROM pg_subscription_rel WHERE srsubstate <> 'r'", 't'), 'the copy is over');
my (undef, undef, $no_decoding) = $managed->psql('postgres', q{SELECT pg_create_logical_replication_slot('order_of_commits', 'test_decoding')});
like($no_decoding, qr/could not access file "test_decoding"/, 'a server without contrib, and nothing else') if $no_decoding;
my $load = Outbox::Ledger::start_load($managed, transactions => 400, clients => 4, rate => 80, events => 1);
my $seen = logged();
foreach my $blow (qw(own apply own sender))
{
	ok(wait_until(sub { logged() > $seen + 100 || feed() == logged() }), "events flow before $blow");
	if ($blow eq 'own') { $own->stop('immediate'); $own->start }
	elsif ($blow eq 'apply') { $own->safe_psql('postgres', q{SELECT pg_terminate_backend(pid) FROM pg_stat_subscription WHERE pid IS NOT NULL}) }
	else { $managed->safe_psql('postgres', q{SELECT pg_terminate_backend(pid) FROM pg_stat_replication}) }
	ok(wait_for_value($own, 'SELECT true', 't'), 'back');
	$seen = logged();
}
ok(Outbox::Ledger::finish($load), 'no writer noticed');
ok(all_logged(), 'all rows have come');
is(logged(), feed(), 'each exactly once');
SKIP:
{
	skip 'this server has no test_decoding to tell the order of commits', 2 if $no_decoding;
	my $expected = $managed->safe_psql('postgres', q{SELECT (regexp_match(data, 'id\[uuid\]:''([^'']+)'''))[1]
		FROM pg_logical_slot_peek_changes('order_of_commits', NULL, NULL, 'include-xids', '0') WHERE data LIKE 'table public.outbox_feed: INSERT%'});
	cmp_ok(scalar(split /\n/, $expected), '>', 1000, 'many rows');
	ok($own->safe_psql('postgres', q{SELECT id FROM outbox_internal.log WHERE aggregate_type <> 'early' ORDER BY created_at OFFSET 1}) eq $expected, 'in the order of the commits');
}
is($own->safe_psql('postgres', 'SELECT count(*) FROM outbox_feed'), 0, 'the table of the subscriber stays empty');
ok(wait_idle($own), 'all is delivered');
my $entries = $redis->entries('order');
Outbox::Ledger::check($managed, 'consumer', [ map { $_->{payload} } @$entries ], duplicates => 1);
my %bytes;
is(scalar(grep { ($bytes{ $_->{id} } //= $_->{payload}) ne $_->{payload} } @$entries), 0, 'what came twice is the same');
is(join(' ', sort keys %bytes), $managed->safe_psql('postgres', q{SELECT string_agg(id::text, ' ' ORDER BY id::text COLLATE "C") FROM outbox_feed WHERE topic = 'order'}), 'under the ids of the rows');

# --- what is looked at ---
like($own->safe_psql('postgres', block('pg_stat_subscription_stats')), qr/^outbox_feed\|t\|t\|[^|]+\|\{[^|]*"apply_error_count": \d+[^|]*\}\n0$/, 'the subscription works, and nothing is left');
like($managed->safe_psql('postgres', block('pg_replication_slots')), qr/^outbox_feed\|t\|reserved\|/, 'and its slot');

# --- traces: what is none is left out, and stops nothing; what is one goes along ---
my $trace = '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01';
my @traceparents = ('', 'zz', $trace, uc $trace, "$trace\\n", $trace =~ s/^00/ff/r, $trace =~ s/^00/01/r, $trace =~ s/-4[^-]+/'-' . '0' x 32/er, $trace =~ s/-00f[^-]+/'-' . '0' x 16/er);
foreach my $i (0 .. $#traceparents)
{
	$managed->safe_psql('postgres', qq{SELECT outbox.emit('traced', '$i', 't', '{}', headers => '{"$_": "$traceparents[$i]", "tenant": "acme"}')}) foreach 'traceparent', 'TraceParent';
}
$managed->safe_psql('postgres', q{SELECT outbox.emit('traced', 'alone', 't', '{}', headers => '{"traceparent": ""}');
	SELECT outbox.emit('traced', 'names', 't', '{}', headers => jsonb_build_object('ids', 'x', 'my key', 'x', 'größe', repeat('x', 12200)))});
ok(all_logged(), 'no traceparent stops the subscription');
is($own->safe_psql('postgres', q{SELECT string_agg(DISTINCT aggregate_id || ' ' || (headers ->> 'traceparent'), ', ') FROM outbox_internal.log WHERE headers ? 'traceparent'}),
	"2 $trace, 6 01" . substr($trace, 2), 'those that are one go along');
is($own->safe_psql('postgres', q{SELECT count(*) FILTER (WHERE headers ->> 'tenant' = 'acme'), count(*) FILTER (WHERE headers IS NULL), count(*) FILTER (WHERE headers ? 'my key')
	FROM outbox_internal.log WHERE aggregate_type = 'traced'}), 2 * @traceparents . '|1|1', 'and so do all other headers');

# --- a row that is refused there ---
my $errors = $own->safe_psql('postgres', 'SELECT apply_error_count FROM pg_stat_subscription_stats');
$managed->safe_psql('postgres', q{ALTER TABLE outbox_feed DROP CONSTRAINT payload_size;
	INSERT INTO outbox_feed (aggregate_type, aggregate_id, event_type, payload_text, topic) VALUES ('big', '1', 'big', repeat('x', 1100000), 'big');
	INSERT INTO outbox_feed (aggregate_type, aggregate_id, event_type, payload_text, topic) VALUES ('big', '1', 'small', 'small', 'big')});
ok(wait_for_value($own, "SELECT apply_error_count > $errors + 1 FROM pg_stat_subscription_stats", 't'), 'it stops the subscription, which tries again and again');
is($own->safe_psql('postgres', q{SELECT count(*) FROM outbox_internal.log WHERE aggregate_type = 'big'}), 0, 'and nothing gets past it');
$own->safe_psql('postgres', q{ALTER SYSTEM SET outbox.max_payload_size = '2MB'});
$own->reload;
ok(all_logged(), 'the limit is raised: it goes on by itself');
is($own->safe_psql('postgres', q{SELECT string_agg(event_type, ' ' ORDER BY created_at) FROM outbox_internal.log WHERE aggregate_type = 'big'}), 'big small', 'in order');

# --- a trigger that is not ALWAYS ---
$own->safe_psql('postgres', 'ALTER TABLE outbox_feed ENABLE TRIGGER emit_feed');
$managed->safe_psql('postgres', q{SELECT outbox.emit('late', '1', 'late', '{}'); SELECT outbox.emit('late', '1', 'later', '{}')});
ok(wait_for_value($own, 'SELECT count(*) FROM outbox_feed', 2), 'rows stay in the table, and are seen there');
is($own->safe_psql('postgres', q{SELECT count(*) FROM outbox_internal.log WHERE aggregate_type = 'late'}), 0, 'not emitted');
$own->safe_psql('postgres', block('WITH late AS'));
is($own->safe_psql('postgres', q{SELECT string_agg(event_type, ' ' ORDER BY created_at) FROM outbox_internal.log WHERE aggregate_type = 'late'}), 'late later', 'the page emits them');
$managed->safe_psql('postgres', q{SELECT outbox.emit('late', '1', 'at once', '{}')});
ok(all_logged(), 'and all later ones');

# --- rows that go, a slot that is lost ---
my $before = logged();
$managed->safe_psql('postgres', q{UPDATE outbox_feed SET created_at = now() - interval '2 days' WHERE aggregate_type = 'early'});
$managed->safe_psql('postgres', block('DELETE FROM outbox_feed WHERE'));
my $kept = feed();
$own->safe_psql('postgres', 'ALTER SUBSCRIPTION outbox_feed DISABLE');
ok(wait_for_value($managed, q{SELECT NOT active FROM pg_replication_slots WHERE slot_name = 'outbox_feed'}, 't'), 'nobody uses the slot');
$managed->safe_psql('postgres', q{SELECT pg_drop_replication_slot('outbox_feed'); SELECT outbox.emit('gap', '1', 'in the gap', '{}')});
is(logged(), $before, 'rows that went emitted nothing');
$own->safe_psql('postgres', $_) foreach split /(?<=;)\n/, block('slot_name = NONE');
$own->safe_psql('postgres', $subscribe);
ok(wait_for_value($own, 'SELECT count(*) FROM outbox_internal.log', $before + $kept + 1), 'subscribed anew: what is kept comes once more');
is($own->safe_psql('postgres', q{SELECT count(DISTINCT id) - (SELECT count(*) FROM outbox_internal.log WHERE aggregate_type = 'gap') FROM outbox_internal.log}), $before, 'under the same ids, and what was committed in between is not missing');
ok(wait_idle($own), 'and is delivered');
is(scalar(grep { !$run{$_} } @blocks), 0, 'every block of the page was run') or diag(grep { !$run{$_} } @blocks);
no_server_crashed($own);
done_testing();
