# outbox is dropped and made anew in one transaction, as pg_restore --clean does it, while sessions that have not looked at
# its tables yet are about to: what they remember from then on is of the new tables.
use strict;
use warnings;

use Outbox::Test;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node();
sub sql { return $node->safe_psql('postgres', $_[0]) }
my $grants = q{SELECT outbox.grant_emit('app', topics => '{ok.*}'), outbox.grant_receive('app', consumers => '{ok}')};
sql("CREATE ROLE app LOGIN; $grants");

# The statement of a session whose first one it is, made to wait for the new extension; then another of the same session.
sub afterwards
{
	my ($first, $second) = @_;
	my $admin = $node->background_psql('postgres');
	$admin->query_safe('BEGIN');
	$admin->query_safe('SET client_min_messages = error; SET outbox.allow_loss = on');
	$admin->query_safe('DROP EXTENSION outbox CASCADE; CREATE EXTENSION outbox');
	$admin->query_safe($grants);
	my $app = $node->background_psql('postgres', on_error_stop => 0, extra_params => [ '-U', 'app' ]);
	$app->query_until(qr/begun/, "\\echo begun\n$first;\n\\echo ended\n");
	ok(wait_for_value($node, q{SELECT count(*) FROM pg_locks l JOIN pg_stat_activity a USING (pid) WHERE a.usename = 'app' AND NOT l.granted}, 1, 30), "waits: $first");
	$admin->query_safe('COMMIT');
	$admin->quit;
	$app->query_until(qr/ended/, "\n");
	$app->{stderr} = '';
	$app->query($second);
	my $error = $app->{stderr};
	$app->quit;
	return $error;
}
like(afterwards(q{SELECT outbox.emit('t', 1, 'e', '{}', topic => 'ok.a')}, q{SELECT outbox.emit('t', 1, 'e', '{}', topic => 'forbidden')}), qr/ERROR: .*forbidden/, 'a role is kept to its topics');
like(afterwards(qq{SELECT outbox.receive('ok', gen_random_uuid())}, q{SELECT outbox.receive('other', gen_random_uuid())}), qr/ERROR: .*other/, 'and to its consumers');
no_server_crashed($node);
done_testing();
