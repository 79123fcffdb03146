"""Keywords of Flower, Opacus, torch and scikit-learn with their equivalents here, and one-sentence errors for wrong calls.

It imports only the standard library, so that every public function can use it cheaply.
"""

from __future__ import annotations

import difflib
import functools
import inspect
from collections.abc import Callable, Collection, Mapping
from typing import Any, TypeVar, cast

from crescendo.errors import UsageError

_Function = TypeVar("_Function", bound=Callable[..., Any])

_STEPS = 'the step size is steps={{"kind": "constant", "eta": {value}}}, or steps="auto", which chooses it and is the default'
_EPOCHS = "passes over the records are epochs={value}"
_ROUNDS = "rounds over all clients are rounds={value}"
_CLIENTS = "write clients={value}"
_ALL_TAKE_PART = "every client takes part in every round, and a slow one does not delay the others; leave it out"
_SIGMA = (
    'the noise of a round is sigma={value}, beside mechanism="minibatch", delta, clip, records and classes; or leave it out and '
    "state epsilon, from which the noise follows"
)
_CLIP = "the largest gradient norm of a record is clip={value}"
_MODEL = "a model is objective=.., the name of one of ours, a torch module, or crescendo.torch.model(net, loss)"
_LOSS = (
    'the loss comes with the model: objective="logistic", "softmax" or "least-squares", or '
    "objective=crescendo.torch.model(net, loss)"
)
_BATCH = (
    "gradients are of one record each, and a round adds up many; local steps of {value} records are "
    "objective=crescendo.torch.model(net, batch={value})"
)
_NETS = "that belongs to a network: objective=crescendo.torch.model(net, {name}={value})"
_NO_CODE = (
    "no code of clients or servers is needed: crescendo.simulate(x, y, clients=5), or a list with each client's (x, y)"
)
_IDS = "an id for each record, which says whose it is, is clients=ids"
_SPLIT = (
    'how records are divided is split="iid", "label", "dirichlet" (with alpha=0.5) or "column:NAME", or clients=ids'
)
_TEST = "the share that is held out for testing is test={value}"
_TEST_PART = "records for testing are test=(x_test, y_test)"
_SEED = "write seed={value}"
_CORES = "how many clients compute at a time is cores={value}"
_DRAWN = "records are drawn at random in every round; leave it out"
_SCALE = "features that differ in size are standardised by themselves; scale=True or scale=False says otherwise"
_FIRST = "records come first and without a name: crescendo.{call}(x, y)"
_OUT = 'a run is kept in a new folder by out="runs/mine-1", and crescendo.load reads it again'
_CLASSES = "the labels there can be are classes=[0, 1]"
_L2 = "the weight of the L2 term is l2={value}"
_PRIVATE = "epsilon=1.0 makes a run private, with records (how many each client declares) and classes"
_NO_STOP = "a run ends after its gradients; write epochs=5, rounds=20 or gradients=10000, and leave it out"
_ACCOUNTING = "epsilon is accounted by the tightest bound there is, and batches are Poisson draws; leave it out"
_PROGRESS = "progress=False prints nothing, and progress=True shows it where there is no terminal too"
_OPTIMIZER = 'write optimizer={value}, which is "sgd" or "adam"'
_MEASURES = "accuracy (or r2 and rmse) and the loss are measured after every round: result.metrics and result.history"

_TABLE: dict[str, str] = {
    _STEPS: "lr learning_rate learning_rate_init eta eta0 step_size stepsize client_lr local_lr base_lr alpha_lr",
    'step sizes that fall are steps={{"kind": "diminishing", "eta0": 0.1, "beta": 0.001}}; steps="auto" chooses them': ""
    "lr_scheduler scheduler lr_decay learning_rate_schedule decay gamma",
    _EPOCHS: "num_epochs n_epochs local_epochs max_epochs nb_epoch epoch max_iter n_iter iterations num_iter passes",
    _ROUNDS: "num_rounds n_rounds num_server_rounds server_rounds communication_rounds global_rounds comm_rounds",
    "the length is gradients=10000 over all clients, or epochs=5": "num_steps max_steps local_steps steps_per_epoch n_steps "
    "num_gradients",
    _BATCH: "batch_size batch minibatch_size local_batch_size train_batch_size max_physical_batch_size batchsize",
    _CLIENTS: "num_clients n_clients num_supernodes num_users n_parties num_partitions nclients num_nodes world_size",
    _ALL_TAKE_PART: "fraction_fit fraction_train fraction_evaluate min_fit_clients min_available_clients min_evaluate_clients "
    "min_train_nodes client_fraction participation sample_clients clients_per_round",
    'a rival is algorithm="fedavg" (or crescendo.compare(x, y, rivals=["fedavg"])); ours needs no word': "strategy aggregator "
    "aggregation method fl_algorithm",
    _NO_CODE: "client_fn server_fn client_app server_app evaluate_fn fit_fn on_fit_config_fn backend_config client_resources "
    "ray_init_args server config run_config",
    _SIGMA: "noise_multiplier noise_scale noise_std sigma_multiplier noise",
    _CLIP: "max_grad_norm l2_norm_clip clipping_norm clipping_threshold max_norm clip_norm grad_clip clipping "
    "clip_grad_norm gradient_clip",
    "write epsilon={value}": "eps target_epsilon privacy_budget budget_epsilon max_epsilon",
    "write delta={value}": "target_delta",
    _ACCOUNTING: "poisson_sampling secure_mode grad_sample_mode accountant alphas num_microbatches microbatches sample_rate "
    "secure_rng",
    _PRIVATE: "dp private privacy differential_privacy use_dp privacy_engine make_private",
    _OPTIMIZER: "optimiser optim opt",
    _NETS: "momentum device nesterov",
    "a torch module computes where it is: objective=crescendo.torch.model(net, device=\"cuda\")": "use_cuda gpus gpu accelerator "
    "num_gpus",
    _LOSS: "loss loss_fn criterion loss_function loss_func task problem_type",
    _MODEL: "model net module estimator clf classifier regressor network architecture model_fn",
    _MEASURES: "metrics scoring metric eval_metric log_interval eval_every",
    "listeners that hear of every round are sinks=[f]": "callbacks callback hooks on_round_end on_round "
    "on_round_begin on_epoch_end on_epoch_begin on_epoch on_step_end on_train_begin on_train_end listeners listener",
    _PROGRESS: "verbose progress_bar show_progress tqdm disp quiet silent",
    _SEED: "random_state random_seed rng manual_seed seeds_",
    _TEST: "test_size test_split validation_split val_split test_fraction validation_fraction holdout val_size test_ratio",
    _TEST_PART: "validation_data eval_set test_data val_data testset test_dataset valid_data test_loader testloader x_test "
    "X_test y_test eval_data",
    "the share that is held out for testing is test=0.2": "train_size train_split train_fraction",
    _CORES: "num_workers processes workers num_threads num_cpus",
    "how many clients compute at a time is cores=2; left out, as many as there are cores": "n_jobs",
    _DRAWN: "shuffle drop_last pin_memory replacement",
    _SCALE: "standardize standardise scaling normalize normalise scaler preprocessing preprocess transform",
    _SPLIT: "stratify partitioner partition partition_by iid non_iid dirichlet_alpha distribution heterogeneity "
    "split_by partitioning",
    _IDS: "groups client_ids client_id cids cid partition_id user_ids site sites ids owner owners group",
    'leave the intercept out by overrides=["objective.intercept=false"]': "fit_intercept intercept bias",
    _L2: "weight_decay reg reg_lambda lambda_ regularization l2_reg l2_penalty weight_l2",
    "the weight of the L2 term is l2=1/(C * N), for the C of scikit-learn and N training records": "C penalty l1_ratio",
    "all records count equally; weights=[2, 1, 1] weighs clients": "sample_weight class_weight client_weights",
    "our regressions are trained by gradient steps; objective=\"mlp\" is a network, and its layers are "
    'overrides=["objective.options.hidden=[32]"]': "solver kernel hidden_layer_sizes hidden multi_class n_estimators max_depth",
    "how far a client may run ahead of the others is wait=1 (rounds); wait=0 is synchronous": "staleness asynchronous async_mode "
    "max_staleness synchronous delay tau",
    _CLASSES: "n_classes num_classes class_names labels_list",
    _FIRST: "data dataset X x train_data frame df trainset train_dataset train_loader trainloader dataframe features X_train "
    "x_train clients_data data_loader",
    _OUT: "output output_dir save path folder save_path logdir save_dir checkpoint checkpoint_dir log_dir run_name",
    'columns that are left out are drop=["id"]': "drop_columns exclude exclude_columns ignore",
    'columns that are categories whatever they look like are categories=["zip"]': "cat_features categorical_features "
    "categorical_columns categorical",
    _NO_STOP: "early_stopping patience tol warm_start n_iter_no_change",
    "labels, or the name of a data frame's column that has them, come second: crescendo.{call}(frame, \"column\")": ""
    "label labels target y target_column label_column target_col y_train",
}  # fmt: skip
_REMEDIES = {word: remedy for remedy, words in _TABLE.items() for word in words.split()}
_LEFT_OUT = frozenset({_FIRST, _NO_CODE})  # their values do not belong in a sentence


def remedy(call: str, name: str, value: object) -> str | None:
    """Return the equivalent of another library's keyword; None for an unknown word.

    >>> remedy("simulate", "lr", 0.1)
    'the step size is steps={"kind": "constant", "eta": 0.1}, or steps="auto", which chooses it and is the default'
    """
    if name not in _REMEDIES:
        return None
    short = isinstance(value, int | float | str) and len(repr(value)) <= 24
    return _REMEDIES[name].format(call=call, name=name, value=repr(value) if short else "..")


def no_keyword(call: str, name: str, value: object, known: Collection[str]) -> UsageError:
    """Return the error about a keyword that a call does not have, with a word to use instead."""
    said = remedy(call, name, value)
    near = difflib.get_close_matches(name, known, n=1)
    if said is None or not ("steps" in known or any(f"{one}=" in said for one in known)):  # a word for another call
        listed = ", ".join(list(known)[:12]) + (", .." if len(known) > 12 else "")
        said = f"did you mean {near[0]}?" if near else f"it has {listed}; help(crescendo.{call}) says more"
    return UsageError(f"crescendo.{call} has no keyword {name}; {said}")


def in_a_sentence(call: str, more: Collection[str] = ()) -> Callable[[_Function], _Function]:
    """Refuse wrong arguments of a public function in one sentence, instead of Python's TypeError.

    ``more`` are keywords that it takes in addition to its signature.
    """

    def guard(function: _Function) -> _Function:
        shown = inspect.signature(function)

        @functools.wraps(function)
        def guarded(*given: Any, **keys: Any) -> Any:
            _check(call, shown, given, keys, more)
            return function(*given, **keys)

        return cast(_Function, guarded)

    return guard


def _check(
    call: str, shown: inspect.Signature, given: tuple[Any, ...], keys: Mapping[str, Any], more: Collection[str]
) -> None:
    one = inspect.Parameter
    placed = [p for p in shown.parameters.values() if p.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)]
    named = [p.name for p in shown.parameters.values() if p.kind in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY)]
    first = ", ".join(p.name for p in placed[:2])
    for name, value in keys.items():
        if name not in named and name not in more:
            raise no_keyword(call, name, value, [*more, *named])
    if len(given) > len(placed):
        raise UsageError(
            f"crescendo.{call} takes {len(placed)} arguments by their place and was given {len(given)}; write the others by "
            f"name, as in crescendo.{call}({first}, {'clients=5' if more else f'{named[-1]}=..'})"
        )
    twice = next((p.name for p in placed[: len(given)] if p.name in keys and p.name in named), None)
    if twice is not None:
        raise UsageError(f"crescendo.{call} was given {twice} by its place and by name; leave one out")
    by_name = set(keys) & set(named)
    lacking = next((p for p in placed[len(given) :] if p.default is one.empty and p.name not in by_name), None)
    if lacking is not None:
        raise UsageError(f"crescendo.{call} lacks {lacking.name}; write crescendo.{call}({first}, ..)")
