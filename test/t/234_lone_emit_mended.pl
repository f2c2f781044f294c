# doctor() and lone events that were mended, or are allowed by now: an hour after the last one it says nothing more, so that doctor_ok()
# can be true again without a restart; what the view has counted stays.
use strict;
use warnings;

use Outbox::Clock;
use Outbox::Test;
use PostgreSQL::Test::Utils;
use Test::More;

Outbox::Clock::prepare(PostgreSQL::Test::Utils::tempdir());
my $node = Outbox::Clock::with(sub { return new_node() });
sub sql { my ($query) = @_; return $node->safe_psql('postgres', $query) }
my $told = q{SELECT count(*) FROM outbox.doctor() WHERE "check" = 'lone events'};

sql(q{SELECT outbox.emit('order', 1, 'e', '{}')});
is(sql($told), 1, 'a lone event is told');
sql(q{ALTER ROLE CURRENT_USER SET outbox.lone_emit = allow});
is(sql("SET outbox.lone_emit = warn; $told"), 1, 'also where it is allowed by now, to who does not allow it');
sql(q{SELECT outbox.emit('order', 1, 'e', '{}')});
Outbox::Clock::set(3500);
is(sql("SET outbox.lone_emit = warn; $told"), 1, 'within an hour');
Outbox::Clock::set(3700);
is(sql("SET outbox.lone_emit = warn; $told"), 0, 'and no more after that');
is(sql('SELECT lone FROM outbox.lone_emit'), 1, 'it was counted');
sql(q{SET outbox.lone_emit = warn; SELECT outbox.emit('order', 1, 'e', '{}')});
is(sql("SET outbox.lone_emit = warn; $told"), 1, 'the next one is told again');
no_server_crashed($node);
done_testing();
