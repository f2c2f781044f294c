# Nothing is said to be done that is not: seek() refuses without a word of success, as a dry run too, where the route cannot be
# moved, and tells what it has done when that is committed.
use strict;
use warnings;

use Outbox::Test;
use Test::More;

my $node = new_node(conf => "outbox.workers = 0\n");
$node->safe_psql('postgres', q{
	SET outbox.test_new_routes = off;
	CREATE SERVER nowhere FOREIGN DATA WRAPPER outbox_redis OPTIONS (host '127.0.0.1', port '1');
	SELECT outbox.create_route('r', server => 'nowhere'), outbox.create_route('other', server => 'nowhere');
	SELECT outbox.emit('t', i, 'e', '{}') FROM generate_series(1, 65) i});
# No worker brings the lane to the end, so the change does not begin.
$node->safe_psql('postgres', q{SELECT outbox.alter_route('r', lanes => 3)});
foreach my $how ('false', 'true')
{
	my ($status, undef, $said) = $node->psql('postgres', "CALL outbox.seek('r', 'infinity', dry_run => $how)");
	like($said, qr/ERROR:  the number of lanes of route "r" is being changed/, "dry_run => $how: refused");
	unlike($said, qr/sends|passes|would/, 'without a word of what it would do');
}
is($node->safe_psql('postgres', q{SELECT count(*) FROM outbox.audit WHERE action = 'seek'}), '0', 'and no row in the audit');
my ($status, $out, $said) = $node->psql('postgres', q{CALL outbox.seek('other', 'infinity')});
is($out, '0|65', 'another route');
like($said, qr/dry run: route "other" would send 0 delivered events again, and pass over 65 that it has not delivered\n.*HINT:  dry_run => false moves it/, 'is shown first');
is($node->safe_psql('postgres', q{SELECT sum(pending) FROM outbox.lag WHERE route = 'other'}), '65', 'and not moved');
($status, $out, $said) = $node->psql('postgres', q{CALL outbox.seek('other', 'infinity', dry_run => false)});
like($said, qr/NOTICE:  route "other" sends 0 delivered events again, and passes over 65 that it has not delivered(?!\n.*HINT)/, 'and moved when told');
is($node->safe_psql('postgres', q{SELECT sum(pending) FROM outbox.lag WHERE route = 'other'}), '0', 'so it is');
done_testing();
