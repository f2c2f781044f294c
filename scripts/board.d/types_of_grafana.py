"""Is the board what Grafana takes? Its JSON as TypeScript, compiled against the types that Grafana publishes (npm: @grafana/schema):
a field that there is not, a word that means nothing, one that is missing is an error."""
import json
import pathlib
import subprocess
import sys
import tempfile

PACKAGES = ["@grafana/schema@13", "typescript@5"]
RAW = "./node_modules/@grafana/schema/dist/types/raw"
# Kinds of panel, and whether their types have fields of their own.
KINDS = {"timeseries": True, "stat": False, "heatmap": True, "bargauge": False, "state-timeline": True, "table": True}
HEAD = """
// What JSON holds of an enum is its text.
type Json<T> = T extends string ? `${T}` : T extends number | boolean | null | undefined ? T
  : T extends (infer U)[] ? Json<U>[] : T extends object ? { [K in keyof T]: Json<T[K]> } : T;
type Of<O, F> = Json<Omit<Panel, 'options' | 'fieldConfig' | 'targets'>> & { options: Json<O>; targets: Query[];
  fieldConfig: { defaults: Json<Omit<FieldConfig, 'custom'>> & { custom?: Json<F> }; overrides: Json<NonNullable<Panel['fieldConfig']>['overrides']> } };
// Of queries to Prometheus there is no type in that package; these are the words of Grafana's own plugin.
interface Query { refId: string; expr: string; datasource: { type: string; uid: string }; editorMode?: 'code' | 'builder';
  format?: 'time_series' | 'table' | 'heatmap'; legendFormat?: string; instant?: boolean; range?: boolean; exemplar?: boolean;
  interval?: string; hide?: boolean; intervalFactor?: number }
"""


def name_of(kind):
    return kind.replace("-", "")


def type_of(panel):
    kind = panel["type"]
    if kind == "row":
        return "Json<RowPanel>"
    return f"Of<{name_of(kind)}.Options, {name_of(kind) + '.FieldConfig' if KINDS[kind] else '{}'}>"


def typescript(board):
    yield f"import type {{ Dashboard, Panel, RowPanel, FieldConfig }} from '{RAW}/dashboard/x/types.gen';"
    for kind in KINDS:
        yield f"import type * as {name_of(kind)} from '{RAW}/composable/{name_of(kind)}/panelcfg/x/types.gen';"
    yield HEAD
    yield f"export const board: Json<Dashboard> = {json.dumps({**board, 'panels': []})};"
    for panel in board["panels"]:
        yield f"export const panel{panel['id']}: {type_of(panel)} = {json.dumps(panel)};"


def check(file):
    """Status 0: it is; 1: it is not; 2: that cannot be found out here."""
    with open(file, encoding="utf-8") as source:
        board = json.load(source)
    with tempfile.TemporaryDirectory() as folder:
        (pathlib.Path(folder) / "package.json").write_text("{}", encoding="ascii")
        try:
            got = subprocess.run(["npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", *PACKAGES], cwd=folder, capture_output=True, text=True, check=False)
        except FileNotFoundError:
            print("npm is not here", file=sys.stderr)
            return 2
        if got.returncode != 0:
            print(got.stderr, file=sys.stderr)
            return 2
        (pathlib.Path(folder) / "board.ts").write_text("\n".join(typescript(board)), encoding="utf-8")
        found = subprocess.run(["node", "node_modules/typescript/bin/tsc", "--noEmit", "--strict", "--skipLibCheck", "--moduleResolution", "node", "--target", "es2020", "board.ts"],
                               cwd=folder, capture_output=True, text=True, check=False)
        print(found.stdout or "the board is what Grafana's types say")
        return 1 if found.returncode != 0 else 0
