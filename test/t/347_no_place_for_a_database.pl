# Databases that get no process: one for which outbox.max_databases leaves no place, and one that takes no connections. The view, the
# figures and doctor() say so while it is so, and not before or after.
use strict;
use warnings;

use Outbox::Test;
use Test::More;

my $node = new_node(conf => "outbox.max_databases = 2\n");
sub sql { return $node->safe_psql(@_) }
sub delivers { my ($name) = @_; return sql($name, q{SELECT outbox.wait_until_idle('60 s')}) eq 't' }
foreach my $name (qw(postgres second third))
{
	sql('postgres', "CREATE DATABASE $name") if $name ne 'postgres';
	sql($name, 'CREATE EXTENSION outbox') if $name ne 'postgres';
	sql($name, q{CREATE SERVER s FOREIGN DATA WRAPPER outbox_null; SELECT outbox.create_route('r', server => 's')});
	ok(delivers($name), "$name is served") if $name ne 'third';
}
my $wanted = q{SELECT value FROM outbox.metrics() WHERE name = 'outbox_workers_wanted'};
my $rows = q{SELECT string_agg(process || ' ' || wanted || ' ' || running || ' ' || state, ', ' ORDER BY process) FROM outbox.process WHERE database = '%s'};
sub rows { my ($in, $of) = @_; return sql($in, sprintf $rows, $of) }

# --- the third of two ---
sql('third', q{SELECT outbox.emit('t', 'k', 'e', '{}')});
is(rows('third', 'third'), 'keeper 1 0 no place, relay 1 0 no place', 'a database without a place is in the view');
like(sql('third', q{SELECT detail FROM outbox.process WHERE database = 'third' LIMIT 1}), qr/All 2 places .* outbox\.max_databases/, 'with the setting');
is(sql('third', $wanted), '1', 'a relay worker is wanted');
sub setting { my ($line) = @_; $node->append_conf('postgresql.conf', $line); $node->reload; return }
setting('outbox.enabled = off');
ok(wait_until(sub { rows('third', 'third') eq 'keeper 1 0 no place, relay 0 0 off' }, 60), 'none where they are switched off');
is(sql('third', $wanted), '0', 'in the figures, too');
setting('outbox.enabled = on');
ok(wait_until(sub { rows('third', 'third') eq 'keeper 1 0 no place, relay 1 0 no place' }, 60), 'and on again');
like(sql('third', q{SELECT detail || ' ' || hint FROM outbox.doctor() WHERE "check" = 'keeper' AND status = 'problem'}), qr/All 2 places .* outbox\.max_databases/, 'and doctor() names it');
is(sql('third', q{SELECT string_agg(DISTINCT "check", ' ' ORDER BY "check") FROM outbox.doctor() WHERE status <> 'ok' AND hint LIKE '%within a second or two%'
  AND hint LIKE 'This database needs a place first, see the check "keeper". If it is still said then: %'}), 'lane workers', 'and that it comes first');
is(sql('third', q{SELECT count(*) FROM outbox.doctor() WHERE hint LIKE '%within a second or two%' AND hint NOT LIKE '%needs a place first%'}), '0', 'nothing else is promised');
is(sql('postgres', $wanted), '1', 'the first has its own');
is(rows('postgres', 'third'), '', 'and knows nothing of the third');

# --- one that takes no connections ---
my $closed = 'keeper 1 0 closed, relay 0 0 closed';
my $served = 'keeper 1 1 running, relay 1 1 running';
my $look = q{SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_type = 'outbox launcher'};
foreach my $how ('by the launcher', 'terminated')
{
	sql('postgres', 'ALTER DATABASE second ALLOW_CONNECTIONS false');
	ok(wait_until(sub
	{
		sql('postgres', q{SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = 'second' AND backend_type ~ '^outbox'}) if $how eq 'terminated';
		return rows('postgres', 'second') eq $closed;
	}, 60), "it is closed, once its processes have ended ($how)") or diag(sql('postgres', 'TABLE outbox.process'));
	sql('postgres', $look);    # a new launcher looks at all databases at once
	ok(wait_until(sub { sql('postgres', q{SELECT state FROM outbox.process WHERE process = 'launcher'}) eq 'running' }, 60), 'all databases are looked at again');
	is(rows('third', 'third'), 'keeper 1 0 no place, relay 1 0 no place', 'its place is kept for it');
	sql('postgres', 'ALTER DATABASE second ALLOW_CONNECTIONS true');
	ok(wait_until(sub { rows('postgres', 'second') eq $served }, 60), 'and opened, it is served again') or diag(sql('postgres', 'TABLE outbox.process'));
}

# --- a place comes free ---
sql('postgres', 'DROP DATABASE second');
ok(wait_until(sub { rows('third', 'third') eq $served }, 90), 'a place that comes free is taken') or diag(sql('third', 'TABLE outbox.process'));
ok(delivers('third'), 'and the event is delivered');
no_server_crashed($node);
done_testing();
