# A transaction that emits and changes nothing else, as sessions meet it: warned of once in each, refused where that is asked for, also
# when it is prepared; not told of where workers and adopt() write. The rule itself: sql/099_lone_emit.sql.
use strict;
use warnings;

use Outbox::Test;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node(conf => "outbox.lone_emit = warn\n");
my $emit = q{SELECT outbox.emit_text('order', 1, 'made', 'x') IS NOT NULL;};
sub said { my ($script) = @_; my ($status, $out, $error) = $node->psql('postgres', $script); return $error }
sub warnings { my ($text) = @_; return scalar(() = $text =~ /WARNING:  the transaction emitted an event and changed nothing else/g) }
$node->safe_psql('postgres', 'CREATE TABLE orders (id int); CREATE ROLE app LOGIN');
$node->safe_psql('postgres', $emit);    # makes the day table, which is a change

foreach my $session (1, 2) { is(warnings(said($emit x 3)), 1, "once in session $session") }
is(warnings(said("BEGIN; INSERT INTO orders VALUES (1); $emit COMMIT;")), 0, 'not where there is a change');
my $lone = $node->safe_psql('postgres', 'SELECT lone FROM outbox.lone_emit');
is(warnings(said("SET outbox.lone_emit = allow; $emit")), 0, 'not where that is meant');
is($node->safe_psql('postgres', 'SELECT lone FROM outbox.lone_emit'), $lone, 'which is not counted, either: doctor() has nothing to say of it');
$node->safe_psql('postgres', q{SELECT outbox.grant_emit('app'); ALTER ROLE app SET outbox.lone_emit = refuse});
my ($status, $out, $error) = $node->psql('postgres', $emit, extra_params => [ '-U', 'app' ]);
like($error, qr/ERROR:  the transaction emitted an event and changed nothing else\nDETAIL: .*\nHINT: .*BEGIN \.\.\. COMMIT/, 'refused for a role');
my $count = $node->safe_psql('postgres', 'SELECT count(*) FROM outbox_internal.log');

like(said("SET outbox.lone_emit = refuse; BEGIN; $emit PREPARE TRANSACTION 'lone';"), qr/ERROR:  the transaction emitted an event/, 'refused when it is prepared');
is($node->safe_psql('postgres', 'SELECT count(*) FROM pg_prepared_xacts'), 0, 'and so is not');
is(said("SET outbox.lone_emit = refuse; BEGIN; INSERT INTO orders VALUES (2); $emit PREPARE TRANSACTION 'both'; COMMIT PREPARED 'both';"), '', 'one with a change is');
is($node->safe_psql('postgres', 'SELECT count(*) FROM outbox_internal.log') - $count, 1, 'what was refused is not in the log');
my $counted = $node->safe_psql('postgres', 'SELECT transactions, lone FROM outbox.lone_emit');
is(warnings(said("BEGIN; $emit PREPARE TRANSACTION 'lone'; COMMIT PREPARED 'lone';")), 1, 'warned of when it is prepared');
is($node->safe_psql('postgres', 'SELECT transactions, lone FROM outbox.lone_emit'), $counted, 'and not counted, as the view says');
is($node->safe_psql('postgres', 'SELECT lone > 0 AND lone < transactions FROM outbox.lone_emit'), 't', 'all others are counted');
like($node->safe_psql('postgres', q{SELECT status || ' ' || detail FROM outbox.doctor() WHERE "check" = 'lone events'}), qr/^warning \d+ of \d+ transactions that emitted changed nothing else/, 'and told by doctor()');

# What is adopted was emitted elsewhere.
$node->safe_psql('postgres', 'CREATE TEMP TABLE few AS SELECT * FROM outbox_internal.log LIMIT 2; INSERT INTO outbox_internal.log SELECT * FROM few');
my $before = $node->safe_psql('postgres', 'SELECT lone FROM outbox.lone_emit');
is(said('SET outbox.lone_emit = refuse; SELECT outbox.adopt()'), '', 'adopt() is not refused');
is($node->safe_psql('postgres', 'SELECT count(*) FROM outbox_internal.foreign_event'), 0, 'and has done its work');
is($node->safe_psql('postgres', 'SELECT lone FROM outbox.lone_emit'), $before, 'which is not counted');

# Another database gets the place in shared memory that a dropped one had, not its figures.
sub in_database { my ($database, $sql) = @_; return $node->safe_psql($database, $sql) }
sub create { my ($database) = @_; in_database('postgres', "CREATE DATABASE $database"); in_database($database, 'SET client_min_messages = error; CREATE EXTENSION outbox; ' . $emit); return }
create('one');
in_database('one', $emit) foreach 1 .. 5;
is(in_database('one', 'SELECT lone FROM outbox.lone_emit'), 6, 'figures of one database');
in_database('postgres', 'DROP DATABASE one');
create('two');
is(in_database('two', 'SELECT transactions, lone FROM outbox.lone_emit'), '1|1', 'are not those of the next that takes its place');
no_server_crashed($node);
done_testing();
