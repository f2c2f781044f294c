# Where track_counts is off, outbox.lone_emit can neither warn nor refuse: doctor() says so, with what to type, of the server, of roles and of
# databases, and not where lone events are allowed. No emit fails because of it.
use strict;
use warnings;

use Outbox::Test;
use Test::More;

my $node = new_node(conf => "outbox.lone_emit = refuse\n");
sub sql { return $node->safe_psql('postgres', $_[0]) }
sub told { return sql(q{SELECT coalesce(string_agg(status || '|' || detail || '|' || hint, E'\n'), '') FROM outbox.doctor() WHERE "check" = 'lone events' AND detail ~ 'track_counts'}) }
my $lone = q{BEGIN; SELECT outbox.emit('order', 1, 'e', '{}'); COMMIT;};
sql("SET outbox.lone_emit = allow; $lone");    # makes the day table
sub is_refused { return ($node->psql('postgres', "$_[0] $lone"))[0] != 0 ? 'refused' : 'taken' }

is(is_refused('SELECT 1;'), 'refused', 'a lone event is refused');
is(told(), '', 'nothing is to be said');
is(is_refused('SET track_counts = off;'), 'taken', 'not where nothing is counted');

# Roles and databases.
sql(q{CREATE ROLE "An app"; CREATE ROLE other; CREATE DATABASE elsewhere});
sql(q{ALTER ROLE "An app" SET track_counts = 'false'; ALTER ROLE other SET track_counts = off; ALTER ROLE other SET outbox.lone_emit = 'Allow';
	ALTER DATABASE elsewhere SET track_counts = off});
like(told(), qr/^warning\|[^|]*for some roles or databases[^|]*\|ALTER ROLE "An app" RESET track_counts; Where events stand alone: /, 'a role that is not counted for is told of, and no other');
sql('ALTER ROLE other IN DATABASE postgres SET track_counts = off; ALTER ROLE ALL SET track_counts = off; ALTER DATABASE postgres SET track_counts = off');
my (undef, undef, $hint) = split /\|/, told();
like($hint, qr/ALTER $_ RESET track_counts;/, "told of: $_") foreach 'ROLE "An app"', 'ROLE other IN DATABASE postgres', 'ROLE ALL', 'DATABASE postgres';
sql($1) while $hint =~ /(ALTER (?:ROLE|DATABASE) [^;]*;)/g;
is(told(), '', 'what it says to type mends it');

# The server.
sql('ALTER SYSTEM SET track_counts = off');
sql('SELECT pg_reload_conf()');
ok(wait_for_value($node, 'SHOW track_counts', 'off'), 'off for all');
like(told(), qr/^warning\|[^|]*as it is here:[^|]*\|ALTER SYSTEM SET track_counts = on;/, 'which is said');
is(is_refused('SELECT 1;'), 'taken', 'and nothing is refused');
sql('ALTER SYSTEM SET outbox.lone_emit = allow');
sql('SELECT pg_reload_conf()');
ok(wait_for_value($node, 'SHOW outbox.lone_emit', 'allow'), 'lone events are allowed');
is(told(), '', 'then nothing is to be said');
no_server_crashed($node);
done_testing();
