"""The packs are Cedar: the reference engine validates all of them against the schema. Skipped
where its Python package is missing."""
import subprocess

import pytest

from cell import BINARY, SOURCE

cedarpy = pytest.importorskip("cedarpy")


def test_packs__are_valid_in_the_reference_engine():
    with open(SOURCE + "/policies/packs/bw.cedarschema") as f:
        schema = f.read()
    for names in (["eu-baseline"], ["all", "air-gap"]):
        text = subprocess.run([BINARY, "policy", "compose"] + names, check=True, stdout=subprocess.PIPE, text=True).stdout
        result = cedarpy.validate_policies(text, schema)
        assert result.validation_passed, result.errors
        broken = text.replace("resource.labels", "resource.lables", 1).replace("resource.regimes", "resource.regimen", 1)
        assert not cedarpy.validate_policies(broken, schema).validation_passed
