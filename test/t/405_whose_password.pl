# A server whose owner is no superuser: the password of the extension's owner, who is one, does not go where he points the server
# to; it does once he has the rights of that role, and no longer when he has them no more.
# matrix: G5
use strict;
use warnings;

use Outbox::Test;
use Test::More;

my $redis = Outbox::Redis->start;
$redis->command(qw(CONFIG SET requirepass), 'of the owner');
my $node = new_node();
$node->safe_psql('postgres', qq{CREATE ROLE app;
	CREATE SERVER redis FOREIGN DATA WRAPPER outbox_redis OPTIONS (host '127.0.0.1', port '1');
	CREATE USER MAPPING FOR CURRENT_USER SERVER redis OPTIONS (password 'of the owner');
	SELECT outbox.create_route('r', server => 'redis', topic => 'r');
	GRANT USAGE ON SCHEMA outbox TO app; GRANT EXECUTE ON FUNCTION outbox.test_server TO app});
my (undef, undef, $said) = $node->psql('postgres', 'ALTER SERVER redis OWNER TO app');
like($said, qr/WARNING:  server redis is used without a user mapping now\n.*That of the extension's owner \(\w+\) is not for a server whose owner has not his rights/s, 'who gives it away is told');
$node->safe_psql('postgres', "SET ROLE app; ALTER SERVER redis OPTIONS (SET port '$redis->{port}')");
my $asked = q{SELECT string_agg(t::text, E'\n') FROM outbox.test_server('redis', 'r') t};
my $refused = q{SELECT count(*) > 0 FROM outbox.destination WHERE error_code = 'NOAUTH'};
my $emit = q{SELECT outbox.emit('order', 1, 'e', '{}')};
$node->safe_psql('postgres', $emit);
ok(wait_for_value($node, $refused, 't', 120), 'a relay worker does not use it') or diag $node->safe_psql('postgres', 'SELECT * FROM outbox.destination');
like($node->safe_psql('postgres', $asked), qr/NOAUTH/, 'nor does outbox.test_server()');
like($node->safe_psql('postgres', q{SELECT string_agg(detail, '') FROM outbox.doctor() WHERE "check" = 'user mapping'}), qr/is used without a user mapping, and has one of \w+, which nobody uses/, 'doctor() tells of it');

$node->safe_psql('postgres', 'GRANT CURRENT_USER TO app' =~ s/CURRENT_USER/'"' . $node->safe_psql('postgres', 'SELECT CURRENT_USER') . '"'/er);
unlike($node->safe_psql('postgres', $asked), qr/NOAUTH/, 'a member of that role has its rights: outbox.test_server()');
ok(wait_idle($node), 'and relay workers, which nothing else told of it');
$node->safe_psql('postgres', 'REVOKE "' . $node->safe_psql('postgres', 'SELECT CURRENT_USER') . '" FROM app');
ok(wait_until(sub { $node->safe_psql('postgres', $emit); $node->safe_psql('postgres', $refused) eq 't' }), 'until it is no more');
$node->safe_psql('postgres', q{CREATE USER MAPPING FOR PUBLIC SERVER redis OPTIONS (password 'of the owner')});
ok(wait_idle($node), 'a mapping for PUBLIC is for whoever owns the server');
no_server_crashed($node);
done_testing();
