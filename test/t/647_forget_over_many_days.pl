# outbox.forget() looks where routes are for the days that have something of the key, not for every day of the log.
use strict;
use warnings;

use Outbox::Test;
use Test::More;

my $node = new_node(conf => "shared_preload_libraries = 'outbox,pg_stat_statements'\npg_stat_statements.track = all\noutbox.days_ahead = 30\n"
	  . "outbox.lone_emit = allow\n");
sub sql { return $node->safe_psql('postgres', @_) }
sql('CREATE EXTENSION pg_stat_statements');
sql(q(CREATE SERVER n FOREIGN DATA WRAPPER outbox_null; SELECT outbox.create_route('all', 'n')));
ok(wait_for_value($node, q(SELECT count(*) > 29 FROM outbox_internal.log_table WHERE day IS NOT NULL), 't', 90), 'the log has thirty days');
sql(q(SELECT count(outbox.emit('customer', '42', 'e', '{}'::jsonb)) FROM generate_series(1, 14)));
ok(wait_idle($node, 30), 'a key has events on one of them');

# How often this session's user looked where the lanes of all routes are; workers ask in other words.
sub looks { return sql(q(SELECT coalesce(sum(calls), 0) FROM pg_stat_statements WHERE query ~ 'FROM outbox.route r\s+JOIN outbox_internal.lane_position')) }
for my $undelivered ('false', 'true')
{
	my $key = $undelivered eq 'true' ? 43 : 42;
	sql(qq(SELECT count(outbox.emit('customer', '43', 'e', '{}'::jsonb)) FROM generate_series(1, 14))) if $key == 43;
	ok(wait_idle($node, 30), 'all is delivered');
	my $before = looks();
	like(sql(qq(CALL outbox.forget('customer', '$key', undelivered => $undelivered, dry_run => false, reason => 'test'))), qr/^14\|0$/, 'it is erased');
	my $looks = looks() - $before;
	cmp_ok($looks, '>', 0, 'it looked where the route is');
	cmp_ok($looks, '<', 12, "not for each day: $looks times");
}
$node->stop;
done_testing();
