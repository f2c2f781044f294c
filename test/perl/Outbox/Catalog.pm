# What an installed extension consists of, as lines of text that can be compared: every member of the extension with its
# definition, owner's and others' rights, comment, and what a dump takes of it. Positions of columns and names that the server
# makes up (of NOT NULL constraints, from 18) are left out: an upgrade may differ in them from a fresh install.
package Outbox::Catalog;
use strict;
use warnings;

use Exporter 'import';
our @EXPORT_OK = qw(catalog);

# Rights as a sorted list, the owner's default ones spelled out.
sub rights
{
	my ($acl, $kind, $owner) = @_;
	return "(SELECT pg_catalog.string_agg(a::text, ' ' ORDER BY a::text) FROM pg_catalog.unnest(coalesce($acl, pg_catalog.acldefault('$kind', $owner))) a)";
}

my $member = q{JOIN pg_depend d ON d.classid = '%s'::regclass AND d.objid = %s AND d.objsubid = 0 AND d.deptype = 'e'
  JOIN pg_extension e ON d.refclassid = 'pg_extension'::regclass AND d.refobjid = e.oid AND e.extname = 'outbox'};

sub member { return sprintf $member, @_ }

# The lines of DATABASE on NODE, sorted.
sub catalog
{
	my ($node, $database) = @_;
	my @queries = (
		# Everything that belongs to it, with its comment.
		q{SELECT concat_ws(' ', 'member', i.type, i.identity, ': ' || obj_description(d.objid, d.classid::regclass::name))
		  FROM pg_depend d JOIN pg_extension e ON d.refclassid = 'pg_extension'::regclass AND d.refobjid = e.oid AND e.extname = 'outbox'
		  CROSS JOIN LATERAL pg_identify_object(d.classid, d.objid, 0) i WHERE d.deptype = 'e'},
		q{SELECT concat_ws(' ', 'relation', c.oid::regclass, c.relkind, c.relreplident, c.reloptions, pg_get_partkeydef(c.oid), } . rights('c.relacl', 'r', 'c.relowner') .
		  q{) FROM pg_class c } . member('pg_class', 'c.oid'),
		q{SELECT concat_ws(' ', 'column', c.oid::regclass, a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull, a.attidentity, a.attgenerated, a.attstorage, coalesce(a.attstattarget, -1),
		  pg_get_expr(f.adbin, f.adrelid), a.attacl, ': ' || col_description(c.oid, a.attnum))
		  FROM pg_class c } . member('pg_class', 'c.oid') . q{ JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
		  LEFT JOIN pg_attrdef f ON f.adrelid = c.oid AND f.adnum = a.attnum WHERE c.relkind IN ('r', 'p', 'v', 'm')},
		q{SELECT concat_ws(' ', 'constraint', c.oid::regclass, k.conname, pg_get_constraintdef(k.oid))
		  FROM pg_class c } . member('pg_class', 'c.oid') . q{ JOIN pg_constraint k ON k.conrelid = c.oid WHERE k.contype <> 'n'},
		q{SELECT concat_ws(' ', 'index', pg_get_indexdef(i.indexrelid), ': ' || obj_description(i.indexrelid))
		  FROM pg_class c } . member('pg_class', 'c.oid') . q{ JOIN pg_index i ON i.indrelid = c.oid},
		q{SELECT concat_ws(' ', 'trigger', t.tgenabled, pg_get_triggerdef(t.oid), ': ' || obj_description(t.oid, 'pg_trigger'))
		  FROM pg_class c } . member('pg_class', 'c.oid') . q{ JOIN pg_trigger t ON t.tgrelid = c.oid AND NOT t.tgisinternal},
		q{SELECT concat_ws(' ', 'view', c.oid::regclass, replace(pg_get_viewdef(c.oid), E'\n', ' ')) FROM pg_class c } . member('pg_class', 'c.oid') .
		  q{ WHERE c.relkind = 'v'},
		q{SELECT concat_ws(' ', 'rule', replace(pg_get_ruledef(r.oid), E'\n', ' ')) FROM pg_class c } . member('pg_class', 'c.oid') .
		  q{ JOIN pg_rewrite r ON r.ev_class = c.oid AND r.rulename <> '_RETURN'},
		q{SELECT concat_ws(' ', 'sequence', s.seqrelid::regclass, s.seqtypid::regtype, s.seqstart, s.seqincrement, s.seqmin, s.seqmax, s.seqcycle)
		  FROM pg_sequence s } . member('pg_class', 's.seqrelid'),
		q{SELECT concat_ws(' ', 'routine', replace(pg_get_functiondef(p.oid), E'\n', ' '), } . rights('p.proacl', 'f', 'p.proowner') .
		  q{) FROM pg_proc p } . member('pg_proc', 'p.oid') . q{ WHERE p.prokind <> 'a'},
		q{SELECT concat_ws(' ', 'cast', c.castsource::regtype, c.casttarget::regtype, c.castcontext, c.castmethod) FROM pg_cast c } . member('pg_cast', 'c.oid'),
		q{SELECT concat_ws(' ', 'event trigger', t.evtname, t.evtevent, t.evtenabled, t.evttags, t.evtfoid::regprocedure)
		  FROM pg_event_trigger t } . member('pg_event_trigger', 't.oid'),
		q{SELECT concat_ws(' ', 'schema', n.nspname, } . rights('n.nspacl', 'n', 'n.nspowner') . q{, ': ' || obj_description(n.oid))
		  FROM pg_namespace n WHERE n.nspname LIKE 'outbox%'},
		q{SELECT concat_ws(' ', 'wrapper', w.fdwname, w.fdwvalidator::regproc, } . rights('w.fdwacl', 'F', 'w.fdwowner') .
		  q{) FROM pg_foreign_data_wrapper w } . member('pg_foreign_data_wrapper', 'w.oid'),
		q{SELECT concat_ws(' ', 'type', t.oid::regtype, t.typlen, t.typcategory, t.typispreferred, t.typstorage, } . rights('t.typacl', 'T', 't.typowner') .
		  q{) FROM pg_type t } . member('pg_type', 't.oid') . q{ WHERE t.typtype = 'b'},
		# Of the rights above a dump takes those that differ from these.
		q{SELECT concat_ws(' ', 'initial rights', i.type, i.identity, p.objsubid, p.privtype, (SELECT string_agg(a::text, ' ' ORDER BY a::text) FROM unnest(p.initprivs) a))
		  FROM pg_depend d JOIN pg_extension e ON d.refclassid = 'pg_extension'::regclass AND d.refobjid = e.oid AND e.extname = 'outbox'
		  JOIN pg_init_privs p ON p.classoid = d.classid AND p.objoid = d.objid
		  CROSS JOIN LATERAL pg_identify_object(d.classid, d.objid, 0) i WHERE d.deptype = 'e'},
		q{SELECT concat_ws(' ', 'dumped', k.oid::regclass, k.condition)
		  FROM pg_extension e, ROWS FROM (unnest(e.extconfig), unnest(e.extcondition)) k (oid, condition) WHERE e.extname = 'outbox'});
	my @lines;
	foreach my $query (@queries)
	{
		push @lines, grep { $_ ne '' } split /\n/, $node->safe_psql($database, $query);
	}
	return sort @lines;
}

1;
