# ALTER EXTENSION outbox UPDATE from 0.1 takes the place of some functions by new ones. What users have made of the old ones
# stops it before it has changed anything, all of it in one error, with what to do; and it is made again as it was.
use strict;
use warnings;

use FindBin;
use Outbox::Test;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node(extension => 0, conf => stage_with('outbox--0.1.sql'));
sub sql { my ($query) = @_; return $node->safe_psql('postgres', $query) }
sub outcome { my ($query) = @_; return ($node->psql('postgres', $query))[2] }

# The list in the script is of all that it drops.
my ($dropped, $listed) = (0, '');
foreach my $file (glob "$FindBin::Bin/../../schema/upgrade/0.1--0.2/*.sql")
{
	my $text = slurp_file($file);
	$listed = $text if $file =~ /00_guard/;
	foreach my $drop ($text =~ /^[ \t]*DROP (?:FUNCTION|PROCEDURE|VIEW|TABLE) ([^;]+);/mg)
	{
		next if $drop =~ /with_dedupe_key|is_ours/; # which it has made itself
		my $before = $drop =~ s/^outbox_internal\.(lag|own_events)\b/outbox._$1/r;
		$dropped++;
		cmp_ok(index($listed, "'$before'"), '>', 0, "$before is in the list");
	}
}
cmp_ok($dropped, '>', 5, 'the script drops functions');

sql(q{CREATE EXTENSION outbox VERSION '0.1'; CREATE SCHEMA app;
	CREATE VIEW app.idle AS SELECT outbox.wait_until_idle('1 s') AS idle;
	CREATE VIEW app.idle_too AS SELECT NOT idle AS busy FROM app.idle;
	CREATE VIEW app.runs AS SELECT run, resend FROM outbox.server_run;
	CREATE FUNCTION app.route(name text) RETURNS bigint LANGUAGE sql BEGIN ATOMIC SELECT outbox.create_route(name, 'nowhere'); END;
	CREATE FUNCTION app.change(name text) RETURNS void LANGUAGE sql BEGIN ATOMIC SELECT outbox.alter_route(name, lanes => 2); END;
	CREATE FUNCTION app.let(role regrole) RETURNS void LANGUAGE sql BEGIN ATOMIC SELECT outbox.grant_emit(role); END;
	CREATE TABLE app.waits (idle boolean DEFAULT outbox.wait_until_idle('1 s'));
	-- In nobody's way.
	CREATE VIEW app.routes AS SELECT name FROM outbox.route; CREATE VIEW app.lag AS SELECT * FROM outbox.lag;
	CREATE VIEW app.met AS SELECT run FROM outbox.server_run;
	CREATE FUNCTION app.put() RETURNS uuid LANGUAGE sql BEGIN ATOMIC SELECT outbox.emit('a', 1, 'b', '{}'); END;
	CREATE FUNCTION app.loose(name text) RETURNS bigint LANGUAGE sql AS $$ SELECT outbox.create_route(name, 'nowhere') $$});
my $error = outcome('ALTER EXTENSION outbox UPDATE');
like($error, qr/ERROR:  extension outbox cannot be updated: objects of yours depend on functions or columns that version 0\.2 replaces/, 'it says why not') or diag($error);
my @theirs = ('view app.idle', 'view app.idle_too', 'view app.runs', 'function app.route(text)', 'function app.change(text)', 'function app.let(regrole)', 'default value for column idle of table app.waits');
like($error, qr/DETAIL:.*\b\Q$_\E/, "and names it: $_") foreach @theirs;
unlike($error, qr/app\.$_\b/, "and not what is in nobody's way: $_") foreach qw(routes lag met put loose);
like($error, qr/HINT:.*pg_get_viewdef.*pg_get_functiondef/, 'and what to do');
is(sql(q{SELECT extversion FROM pg_extension WHERE extname = 'outbox'}), '0.1', 'nothing has changed');
sql(q{DROP VIEW app.idle_too, app.idle, app.runs; DROP FUNCTION app.route(text), app.change(text), app.let(regrole); DROP TABLE app.waits});
is(outcome('ALTER EXTENSION outbox UPDATE'), '', 'without them it is updated');
is(outcome(q{CREATE VIEW app.idle AS SELECT outbox.wait_until_idle('1 s') AS idle;
	CREATE FUNCTION app.route(name text) RETURNS bigint LANGUAGE sql BEGIN ATOMIC SELECT outbox.create_route(name, 'nowhere'); END}), '', 'and they are made again');
is(outcome('TABLE app.lag; TABLE app.met; TABLE app.routes; SELECT app.put()'), '', 'all others work');
done_testing();
